/**
 * Token counts for answers whose upstream reported none (C4): counted with a common tokenizer and marked as estimated,
 * since the model's own may differ.
 */

import { Worker } from 'node:worker_threads'
import type { Log } from '../kernel/log.ts'
import type { ChatMessage } from '../upstream/spec.ts'
import type { CountAnswer, CountRequest } from './tokensWorker.ts'

/** Tokens that chat formats spend around each message. */
const TOKENS_EACH_MESSAGE = 4

/** Bytes of a token, for when there is no tokenizer: English prose has about four. */
const BYTES_PER_TOKEN = 4

export interface TokenCounter {
  /** How many counts have been asked for and not been answered. */
  readonly waiting: number
  /** Counts the tokens of texts. Never rejects: where the counting thread fails, the count follows from the length. */
  count(texts: readonly string[]): Promise<number>
  close(): Promise<void>
}

/** The tokens of a prompt: those of its messages, and some for their form. */
export async function countPrompt(counter: TokenCounter, messages: readonly ChatMessage[]): Promise<number> {
  const tokens = await counter.count(messages.map(({ content }) => content))
  return tokens + TOKENS_EACH_MESSAGE * messages.length
}

/** Counts in a thread of its own, started when first needed: most processes never need it. */
export function createTokenCounter(log: Log): TokenCounter {
  const waiting = new Map<number, { readonly texts: readonly string[]; readonly resolve: (tokens: number) => void }>()
  let worker: Worker | null = null
  let nextId = 0

  const giveUp = () => {
    worker = null
    for (const { texts, resolve } of waiting.values()) resolve(fromLength(texts))
    waiting.clear()
  }
  const fail = (failed: Worker, error: unknown) => {
    if (worker !== failed) return
    log.error({ err: error, counts: waiting.size }, 'the thread that counts tokens failed; lengths are used instead')
    giveUp()
  }
  const start = (): Worker => {
    const started = new Worker(new URL('./tokensWorker.ts', import.meta.url))
    started.on('message', ({ id, tokens }: CountAnswer) => {
      waiting.get(id)?.resolve(tokens)
      waiting.delete(id)
    })
    started.on('error', (error) => fail(started, error))
    started.on('exit', (code) => fail(started, new Error(`it ended with code ${code}`)))
    // It has nothing to say unless it is asked, so it keeps no process alive.
    started.unref()
    return started
  }
  return {
    get waiting() {
      return waiting.size
    },
    count(texts) {
      if (texts.every((text) => text === '')) return Promise.resolve(0)
      worker ??= start()
      const id = nextId++
      const asked = worker
      return new Promise((resolve) => {
        waiting.set(id, { texts, resolve })
        asked.postMessage({ id, texts } satisfies CountRequest)
      })
    },
    async close() {
      const ending = worker
      giveUp()
      await ending?.terminate()
    },
  }
}

function fromLength(texts: readonly string[]): number {
  let tokens = 0
  for (const text of texts) tokens += Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
  return tokens
}
