/**
 * Token counts for answers whose provider reported none (C4): counted with a common tokenizer and marked as estimated,
 * since the model's own may differ.
 */

import { createThreadCalls } from '../../infra/threadCalls.ts'
import type { Log } from '../../lib/log.ts'
import type { ChatMessage } from '../../providers/dialect/spec.ts'
import { type CountSlices, createCountTurns } from './countTurns.ts'

/** Tokens that chat formats spend around each message. */
const TOKENS_EACH_MESSAGE = 4

export interface TokenCounter {
  /** How many counts have been asked for and not been answered. */
  readonly waiting: number
  /**
   * Counts the tokens of texts, organizations in turn. It may stop at `tokensMost`: any answer that is not below that means as
   * many or more. Never rejects: where the counting thread fails, the count follows from the length.
   */
  count(texts: readonly string[], organizationId: string, tokensMost?: number): Promise<number>
  close(): Promise<void>
}

/** The tokens of a prompt: those of its messages, and some for their form. It may stop at `tokensMost`, as the counter does. */
export async function countPrompt(
  counter: TokenCounter,
  messages: readonly ChatMessage[],
  organizationId: string,
  tokensMost = Number.POSITIVE_INFINITY,
): Promise<number> {
  const form = TOKENS_EACH_MESSAGE * messages.length
  const texts = messages.map(({ content }) => content)
  return form + (await counter.count(texts, organizationId, tokensMost - form))
}

/** Counts in a thread of its own, started when first needed: most processes never need it. */
export function createTokenCounter(log: Log): TokenCounter {
  const file = new URL('./tokensWorker.ts', import.meta.url)
  const failed = 'the thread that counts tokens failed; lengths are used instead'
  const thread = createThreadCalls<Parameters<CountSlices>[0], readonly number[]>({ file, failed, log })
  const turns = createCountTurns((slices) => thread.call(slices))
  return {
    get waiting() {
      return turns.waiting
    },
    count: turns.count,
    close() {
      turns.giveUp()
      return thread.close()
    },
  }
}
