import type { Model } from '../catalog/model.ts'
import type { TokenRate } from '../catalog/price.ts'
import type { Worst } from '../money/gates.ts'
import { priceTokens } from '../money/pricing.ts'
import type { ChatMessage } from '../upstream/spec.ts'

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

/** Tokens that a model's chat template may put around the whole conversation and around each message. */
const TEMPLATE_TOKENS = 64
const TEMPLATE_TOKENS_EACH = 16

/** Output tokens that a hold covers at once where balances are ample; a hold is extended by as much. */
export const STEP_TOKENS = 256

/**
 * The most tokens a prompt can come to. A tokenizer that falls back to bytes never makes more tokens than there are bytes
 * of UTF-8, and a prompt longer than the model's context is refused by the upstream.
 */
export function promptTokensAtMost(messages: readonly ChatMessage[], model: Model): number {
  let tokens = TEMPLATE_TOKENS
  for (const message of messages) tokens += Buffer.byteLength(message.content) + TEMPLATE_TOKENS_EACH
  return Math.min(tokens, model.contextTokens)
}

/** The most output tokens a request can come to. */
export function outputTokensAtMost(request: ChatRequest, model: Model): number {
  return Math.min(request.maxTokens ?? model.maxOutputTokens, model.maxOutputTokens)
}

/** What a prompt and so many output tokens cost, no part of the prompt being cached. Micro-cents. */
export function costAtMost(rate: TokenRate, promptTokens: number, completionTokens: number): bigint {
  return priceTokens(rate, { promptTokens, cachedPromptTokens: 0, completionTokens })
}

/**
 * What a request can come to, for the gates. Of `hiddenTokens`, which a model may spend without sending anything, nobody
 * sees when to extend for them: the first step has them all.
 */
export function worstCase(rate: TokenRate, promptTokens: number, outputTokens: number, hiddenTokens: number): Worst {
  return {
    wholeMicrocents: costAtMost(rate, promptTokens, outputTokens),
    firstStepMicrocents: costAtMost(rate, promptTokens, Math.min(STEP_TOKENS + hiddenTokens, outputTokens)),
  }
}
