import { extname } from 'node:path'
import { PAID_DEADLINE_MS } from './api.ts'
import { askOnce, chosenKey, keyOption, sameCommand } from './askOnce.ts'
import type { CliCommand } from './command.ts'
import { costUsd } from './cost.ts'
import { UsageMistake } from './failure.ts'
import { checkPlace, saveBytes } from './saveFile.ts'
import { wholeNumberOf } from './values.ts'

/** No model makes more at once; the server has the model's own bound. */
const IMAGES_MAX = 100

/** The room that is looked for before an image of unknown size is paid for: that of 1024x1024 pixels without compression. */
const IMAGE_BYTES = 4 * 1024 * 1024
/** The most that is looked for; a larger image is nearly always compressed to less. */
const IMAGE_BYTES_MAX = 32 * 1024 * 1024
const HEADER_BYTES = 64 * 1024

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
    keyOption('gets the same images for 24 hours and is charged once'),
  ],
  examples: ['tollgate image "A toll gate at dawn" --model svc/sandbox-image --output gate.png'],
  run: async (args, system) => {
    const count = wholeNumberOf(args, 'n', IMAGES_MAX)
    const output = args.text('output')
    const key = chosenKey(args, system)
    if (output === undefined && !args.json) throw new UsageMistake('--output: name the file to save the image to')
    const files = output === undefined ? [] : filesOf(output, count ?? 1)
    const size = args.text('size')
    if (output !== undefined) await checkPlace(system, files, bytesOf(size))
    const again = sameCommand(imageCommand, args, key)
    const wanted = {
      model: args.required('model'),
      prompt: args.argument,
      ...(count !== undefined && { n: count }),
      ...(size !== undefined && { size }),
    }
    const { body, headers } = await askOnce(args, system, {
      method: 'POST',
      path: '/v1/images/generations',
      body: wanted,
      deadlineMs: PAID_DEADLINE_MS,
      idempotencyKey: key,
      left: 'left the images, which the server may go on to make',
      advice: `if the images were made, they are kept for 24 hours, and ${again} gets them without a new charge`,
    })
    const answer = body as ImagesAnswer
    const cost = costUsd(headers)
    const kept = `the answer is kept for 24 hours: ${again} gets it without a new charge`
    if (output === undefined) return { json: { ...answer, cost_usd: cost }, text: '', lostAdvice: kept }
    const saved = files.slice(0, answer.data.length)
    for (const [index, file] of saved.entries()) {
      const bytes = Buffer.from(answer.data[index]?.b64_json ?? '', 'base64')
      await saveBytes(system, file, bytes, kept)
    }
    const text = `Saved ${saved.join(', ')}${cost === null ? '' : ` for $${cost}`}.\n`
    return { json: { ...answer, data: saved.map((file) => ({ file })), cost_usd: cost }, text }
  },
}

/** Returns how much room an image of a size such as `512x512` may need: its pixels without compression. */
function bytesOf(size: string | undefined): number {
  const [, width, height] = /^([0-9]{1,5})x([0-9]{1,5})$/.exec(size ?? '') ?? []
  if (width === undefined || height === undefined) return IMAGE_BYTES
  return Math.min(Number(width) * Number(height) * 4 + HEADER_BYTES, IMAGE_BYTES_MAX)
}

/** `gate.png` for one image; `gate-1.png`, `gate-2.png` for several. */
function filesOf(output: string, count: number): string[] {
  if (count === 1) return [output]
  const ending = extname(output)
  const stem = output.slice(0, output.length - ending.length)
  return Array.from({ length: count }, (_, index) => `${stem}-${index + 1}${ending}`)
}
