import type { Model } from '../catalog/model.ts'
import type { TokenRate } from '../catalog/price.ts'
import type { Worst } from '../money/gates.ts'
import { priceEmbeddings } from '../money/pricing.ts'
import type { VectorFormat } from '../upstream/vectors/write.ts'

/** An embeddings request, validated. */
export interface EmbeddingsRequest {
  /** As the client wrote it: an id or alias. */
  readonly model: string
  /** 1 to 2048 texts, none empty. */
  readonly inputs: readonly string[]
  /** At least 1, or null for the model's own. */
  readonly dimensions: number | null
  readonly format: VectorFormat
  /** The end user's opaque id, or null. */
  readonly user: string | null
}

/** Inputs that one request may have. */
export const INPUTS_MOST = 2_048

/** Tokens that a model may put around each input. */
const TEMPLATE_TOKENS_EACH = 16

/**
 * The most tokens the inputs can come to. A tokenizer that falls back to bytes never makes more tokens than there are bytes
 * of UTF-8, and of an input longer than the model's context no more is read, or it is refused.
 */
export function promptTokensAtMost(inputs: readonly string[], model: Model): number {
  let tokens = 0
  for (const input of inputs) tokens += Math.min(Buffer.byteLength(input) + TEMPLATE_TOKENS_EACH, model.contextTokens)
  return tokens
}

/** What a request can come to, for the gates: all of it is known before it starts. */
export function worstCase(rate: TokenRate, promptTokens: number): Worst {
  const microcents = priceEmbeddings(rate, promptTokens)
  return { wholeMicrocents: microcents, firstStepMicrocents: microcents }
}
