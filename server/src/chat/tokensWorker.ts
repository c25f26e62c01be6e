/** The thread that counts: takes `{id, texts}`, answers `{id, tokens}`. Started by `tokenCounter.ts`. */

import { parentPort } from 'node:worker_threads'
import { countText } from './tokens.ts'

export interface CountRequest {
  readonly id: number
  readonly texts: readonly string[]
}

export interface CountAnswer {
  readonly id: number
  readonly tokens: number
}

parentPort?.on('message', ({ id, texts }: CountRequest) => {
  let tokens = 0
  for (const text of texts) tokens += countText(text)
  parentPort?.postMessage({ id, tokens } satisfies CountAnswer)
})
