/** Which tokens of an answer are charged: those that the provider reported, where they can be believed, else a count (C4). */

import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { ChatMessage } from '../../providers/dialect/spec.ts'
import { believed, needsCheck } from '../call/believable.ts'
import { countPrompt, type TokenCounter } from './tokenCounter.ts'

/** The messages that were sent to the model, and their length. */
export interface Prompt {
  readonly messages: readonly ChatMessage[]
  /** UTF-8 bytes of all messages together. */
  readonly bytes: number
}

/** A prompt, and the most tokens that it is charged for (C10): no more of them are counted. */
export interface BoundedPrompt {
  readonly prompt: Prompt
  readonly promptTokens: number
  /** Of the model: prompt and output together have no more. */
  readonly contextTokens: number
}

/** The text that the model sent, and its provider's report of tokens. */
export interface Generated {
  readonly text: string
  readonly reasoning: string
  /** UTF-8 bytes of text and reasoning. */
  readonly bytes: number
  /** The provider's last report; null when there was none that can be true. */
  readonly usage: TokenUsage | null
  /** True when more was generated after that report: then it is no total. */
  readonly isUsageBehind: boolean
}

export interface CountedChat {
  readonly usage: TokenUsage
  /** True when a number of it was counted here. */
  readonly estimated: boolean
  /** The report that was not believed; null in every other case. */
  readonly disbelieved: TokenUsage | null
}

/**
 * Returns the tokens to charge for; at once where the provider's report is believed. A report that the length of the texts
 * makes doubtful is held against a count, and each of its numbers that is below half of its count is replaced.
 */
export function usageOf(
  counter: TokenCounter,
  organizationId: string,
  bounded: BoundedPrompt,
  generated: Generated,
): CountedChat | Promise<CountedChat> {
  const { usage: reported, isUsageBehind, bytes } = generated
  const isDoubtful =
    reported !== null &&
    (needsCheck(reported.promptTokens, bounded.prompt.bytes) ||
      (!isUsageBehind && needsCheck(reported.completionTokens, bytes)))
  if (reported !== null && !isDoubtful && !isUsageBehind)
    return { usage: reported, estimated: false, disbelieved: null }
  return count(counter, organizationId, bounded, generated, isDoubtful)
}

async function count(
  counter: TokenCounter,
  organizationId: string,
  { prompt: { messages }, promptTokens: promptTokensMost, contextTokens }: BoundedPrompt,
  { text, reasoning, usage: reported, isUsageBehind }: Generated,
  isDoubtful: boolean,
): Promise<CountedChat> {
  const answerCount = counter.count([text, reasoning], organizationId)
  if (reported === null) {
    // Both asked for at once: they wait for others once.
    const promptCount = countPrompt(counter, messages, organizationId, promptTokensMost)
    const [completionTokens, promptTokens] = await Promise.all([answerCount, promptCount])
    const usage = {
      promptTokens: besideOutput(promptTokens, completionTokens, contextTokens),
      cachedPromptTokens: 0,
      completionTokens,
    }
    return { usage, estimated: true, disbelieved: null }
  }
  const outputCount = await answerCount
  const completionTokens = isUsageBehind
    ? Math.max(reported.completionTokens, outputCount)
    : believed(reported.completionTokens, outputCount)
  let { promptTokens } = reported
  if (isDoubtful) {
    // To the end: whether the report is believed may depend on more tokens than are charged.
    promptTokens = believed(promptTokens, await countPrompt(counter, messages, organizationId))
    if (promptTokens !== reported.promptTokens)
      promptTokens = besideOutput(promptTokens, completionTokens, contextTokens)
  }
  const usage = { promptTokens, cachedPromptTokens: reported.cachedPromptTokens, completionTokens }
  const isReplaced = promptTokens !== reported.promptTokens || usage.completionTokens !== reported.completionTokens
  return { usage, estimated: isUsageBehind || isReplaced, disbelieved: isReplaced && !isUsageBehind ? reported : null }
}

/** A prompt's count, as far as it can be true: the output that came had room beside the prompt. */
function besideOutput(promptCount: number, completionTokens: number, contextTokens: number): number {
  return Math.min(promptCount, Math.max(0, contextTokens - completionTokens))
}
