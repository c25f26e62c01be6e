import type { WorstCase } from '../../billing/admission/gates.ts'
import { priceTokens } from '../../billing/charges/pricing.ts'
import type { Model } from '../../catalog/model.ts'
import type { TokenRate } from '../../catalog/price.ts'
import type { ChatMessage } from '../../providers/dialect/spec.ts'
import { TEMPLATE_TOKENS_EACH } from '../call/templateTokens.ts'
import type { Prompt } from './usage.ts'

/** A chat request, validated. */
export interface ChatRequest {
  /** As the client wrote it: an id or alias, perhaps with `:economy`. */
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly stream: boolean
  readonly includeUsage: boolean
  /** At least 1, or null for the model's own limit. */
  readonly maxTokens: number | null
  /** 0 to 2, or null for the model's default. */
  readonly temperature: number | null
}

/** Tokens that a model's chat template may put around the whole conversation. */
const TEMPLATE_TOKENS = 64

/** Output tokens that a hold covers at once where balances are ample; a hold is extended by as much. */
export const STEP_TOKENS = 256

/**
 * The most tokens a prompt can come to. A tokenizer that falls back to bytes never makes more tokens than there are bytes
 * of UTF-8, and a prompt longer than the model's context is refused by the provider.
 */
export function promptTokensAtMost({ messages, bytes }: Prompt, model: Model): number {
  return Math.min(TEMPLATE_TOKENS + TEMPLATE_TOKENS_EACH * messages.length + bytes, model.contextTokens)
}

/** Returns the messages with their length. */
export function promptOf(messages: readonly ChatMessage[]): Prompt {
  let bytes = 0
  for (const { content } of messages) bytes += Buffer.byteLength(content)
  return { messages, bytes }
}

/** Returns whether a prompt is so long that no tokenizer fits it into the model's context (C10). */
export function isTooLong({ bytes }: Prompt, { contextTokens, promptBytesPerToken }: Model): boolean {
  return bytes > contextTokens * promptBytesPerToken
}

/** The most output tokens a request can come to. */
export function outputTokensAtMost(request: ChatRequest, model: Model): number {
  return Math.min(request.maxTokens ?? model.maxOutputTokens, model.maxOutputTokens)
}

/** Returns the cost of a prompt and so many output tokens, in micro-cents, when no part of the prompt is cached. */
export function costAtMost(rate: TokenRate, promptTokens: number, completionTokens: number): bigint {
  return priceTokens(rate, { promptTokens, cachedPromptTokens: 0, completionTokens })
}

/**
 * Returns the most that a request can cost, for the gates. A model may spend `hiddenTokens` without sending anything,
 * so we can't tell when to extend the hold for them: the first step includes all of them.
 */
export function chatWorstCase(
  rate: TokenRate,
  promptTokens: number,
  outputTokens: number,
  hiddenTokens: number,
): WorstCase {
  return {
    wholeMicrocents: costAtMost(rate, promptTokens, outputTokens),
    firstStepMicrocents: costAtMost(rate, promptTokens, Math.min(STEP_TOKENS + hiddenTokens, outputTokens)),
    tokens: { prompt: promptTokens, output: outputTokens },
  }
}
