import { askApi, PAID_DEADLINE_MS } from './api.ts'
import type { CliCommand } from './command.ts'
import { costUsd } from './cost.ts'
import { UsageMistake } from './failure.ts'
import { wholeNumberOf } from './values.ts'

/** As many as the server takes in one request. */
const TEXTS_MAX = 2_048
const INPUT_BYTES_MAX = 8 * 1024 * 1024
const DIMENSIONS_MAX = 1_000_000

interface EmbeddingsAnswer {
  readonly data: readonly { readonly embedding: readonly number[] }[]
}

/** `tollgate embed TEXT… --model …` */
export const embedCommand: CliCommand = {
  words: ['embed'],
  summary: 'Embed texts: one vector a line, as JSON',
  argument: {
    name: 'TEXT',
    summary: `the texts, at most ${TEXTS_MAX}; when none is given, each line of standard input is one`,
    isOptional: true,
    isMany: true,
  },
  options: [
    {
      name: 'model',
      value: 'ID',
      summary: 'an embedding model, as "tollgate models --modality embedding" lists them',
      isRequired: true,
    },
    { name: 'dimensions', value: 'N', summary: 'the length of the vectors, for models that can shorten them' },
  ],
  examples: [
    'tollgate embed "a toll gate" "a barrier across a road" --model svc/sandbox-embedding',
    'tollgate embed --model svc/sandbox-embedding < texts.txt > vectors.jsonl',
  ],
  run: async (args, system) => {
    const dimensions = wholeNumberOf(args, 'dimensions', DIMENSIONS_MAX)
    if (args.words.length === 0 && system.stdin.isTerminal) {
      throw new UsageMistake('the texts are missing: give some, or pipe them into standard input, one a line')
    }
    const texts = args.words.length > 0 ? args.words : linesOf(await system.stdin.readAll(INPUT_BYTES_MAX))
    if (texts.length === 0) throw new UsageMistake('there is no text to embed')
    if (texts.length > TEXTS_MAX)
      throw new UsageMistake(`there are ${texts.length} texts: embed at most ${TEXTS_MAX} at once`)
    const { body: answer, headers } = await askApi(args, system, {
      method: 'POST',
      path: '/v1/embeddings',
      body: { model: args.required('model'), input: texts, ...(dimensions !== undefined && { dimensions }) },
      deadlineMs: PAID_DEADLINE_MS,
    })
    const { data } = answer as EmbeddingsAnswer
    return {
      json: { ...(answer as EmbeddingsAnswer), cost_usd: costUsd(headers) },
      text: data.map(({ embedding }) => `${JSON.stringify(embedding)}\n`).join(''),
    }
  },
}

/** Each line is a text. Empty ones at the end are left out; any other would shift the vectors against the lines. */
function linesOf(text: string): string[] {
  const lines = text.replace(/\s+$/, '').split(/\r?\n/)
  if (lines.length === 1 && lines[0] === '') return []
  const empty = lines.findIndex((line) => line.trim() === '')
  if (empty === -1) return lines
  throw new UsageMistake(`line ${empty + 1} of standard input is empty: each line is one text, remove it`)
}
