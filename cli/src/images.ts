import { extname } from 'node:path'
import { askApi, PAID_DEADLINE_MS } from './api.ts'
import type { CliCommand } from './command.ts'
import { costOf } from './cost.ts'
import { UsageMistake } from './failure.ts'
import { idempotencyKey } from './idempotencyKey.ts'
import { checkPlace, saveBytes } from './saveFile.ts'
import { wholeNumberOf } from './values.ts'

/** No model makes more at once; the server has the model's own bound. */
const IMAGES_MAX = 100

interface ImagesAnswer {
  readonly created: number
  readonly data: readonly { readonly b64_json: string }[]
  readonly usage: { readonly image_count: number }
}

/** `tollgate image PROMPT --model … --output gate.png` */
export const imageCommand: CliCommand = {
  words: ['image'],
  summary: 'Make images and save them',
  argument: { name: 'PROMPT', summary: 'what they show' },
  options: [
    {
      name: 'model',
      value: 'ID',
      summary: 'an image model, as "tollgate models --modality image" lists them',
      isRequired: true,
    },
    {
      name: 'output',
      value: 'FILE',
      summary: 'the file to save to; several images get a number before the ending; replaces existing files',
    },
    { name: 'n', value: 'N', summary: 'how many; 1 when left out' },
    { name: 'size', value: 'WxH', summary: 'their size in pixels, such as 512x512' },
  ],
  examples: ['tollgate image "A toll gate at dawn" --model svc/sandbox-image --output gate.png'],
  run: async (args, system) => {
    const count = wholeNumberOf(args, 'n', IMAGES_MAX)
    const output = args.text('output')
    const size = args.text('size')
    if (output === undefined && !args.json) throw new UsageMistake('--output: name the file to save the image to')
    const files = output === undefined ? [] : filesOf(output, count ?? 1)
    for (const file of files) await checkPlace(system, file)
    const { body, headers } = await askApi(args, system, {
      method: 'POST',
      path: '/v1/images/generations',
      body: {
        model: args.required('model'),
        prompt: args.argument,
        ...(count !== undefined && { n: count }),
        ...(size !== undefined && { size }),
      },
      headers: { 'Idempotency-Key': idempotencyKey(system) },
      deadlineMs: PAID_DEADLINE_MS,
    })
    const answer = body as ImagesAnswer
    if (output === undefined) return { json: answer, text: '' }
    const saved = files.slice(0, answer.data.length)
    for (const [index, file] of saved.entries()) {
      await saveBytes(system, file, Buffer.from(answer.data[index]?.b64_json ?? '', 'base64'))
    }
    const text = `Saved ${saved.join(', ')}${costOf(headers)}.\n`
    return { json: { ...answer, data: saved.map((file) => ({ file })) }, text }
  },
}

/** `gate.png` for one image; `gate-1.png`, `gate-2.png` for several. */
function filesOf(output: string, count: number): string[] {
  if (count === 1) return [output]
  const ending = extname(output)
  const stem = output.slice(0, output.length - ending.length)
  return Array.from({ length: count }, (_, index) => `${stem}-${index + 1}${ending}`)
}
