/**
 * Token counts for answers whose upstream reported none (C4): counted with a common tokenizer and marked as estimated,
 * since the model's own may differ.
 */

import { createWorkerCalls } from '../io/workerCalls.ts'
import type { Log } from '../kernel/log.ts'
import type { ChatMessage, TokenUsage } from '../upstream/spec.ts'

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

/**
 * The usage of an answer, whose texts are `written`, that the upstream did not report, or `reported` on its way and not at the
 * end (C4).
 */
export async function countUsage(
  counter: TokenCounter,
  messages: readonly ChatMessage[],
  written: readonly string[],
  reported: TokenUsage | null,
): Promise<TokenUsage> {
  const completionTokens = await counter.count(written)
  if (reported !== null) {
    return { ...reported, completionTokens: Math.max(reported.completionTokens, completionTokens) }
  }
  const promptTokens = await countPrompt(counter, messages)
  return { promptTokens, cachedPromptTokens: 0, completionTokens }
}

/** Counts in a thread of its own, started when first needed: most processes never need it. */
export function createTokenCounter(log: Log): TokenCounter {
  const file = new URL('./tokensWorker.ts', import.meta.url)
  const failed = 'the thread that counts tokens failed; lengths are used instead'
  const thread = createWorkerCalls<readonly string[], number>({ file, failed, log })
  return {
    get waiting() {
      return thread.waiting
    },
    count(texts) {
      if (texts.every((text) => text === '')) return Promise.resolve(0)
      return thread.call(texts).catch(() => fromLength(texts))
    },
    close: thread.close,
  }
}

function fromLength(texts: readonly string[]): number {
  let tokens = 0
  for (const text of texts) tokens += Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
  return tokens
}
