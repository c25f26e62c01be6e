import type { WorstCase } from '../../billing/admission/gates.ts'
import { priceEmbeddings } from '../../billing/charges/pricing.ts'
import type { Model } from '../../catalog/model.ts'
import type { TokenRate } from '../../catalog/price.ts'
import type { VectorFormat } from '../../providers/vectors/write.ts'
import { TEMPLATE_TOKENS_EACH } from '../call/templateTokens.ts'

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

/**
 * The most tokens the inputs can come to. A tokenizer that falls back to bytes never makes more tokens than there are bytes
 * of UTF-8, and of an input longer than the model's context no more is read, or it is refused.
 */
export function inputTokensAtMost(inputs: readonly string[], model: Model): number {
  let tokens = 0
  for (const input of inputs) tokens += Math.min(Buffer.byteLength(input) + TEMPLATE_TOKENS_EACH, model.contextTokens)
  return tokens
}

/** Returns the index of the first input that is so long that no tokenizer fits it into the model's context (C10), or null. */
export function firstTooLong(
  inputs: readonly string[],
  { contextTokens, promptBytesPerToken }: Pick<Model, 'contextTokens' | 'promptBytesPerToken'>,
): number | null {
  const index = inputs.findIndex((input) => Buffer.byteLength(input) > contextTokens * promptBytesPerToken)
  return index === -1 ? null : index
}

/** Returns the cost of a request, for the gates. It is exact: the prompt is all that is charged. */
export function embeddingWorstCase(rate: TokenRate, promptTokens: number): WorstCase {
  const microcents = priceEmbeddings(rate, promptTokens)
  const tokens = { prompt: promptTokens, output: 0 }
  return { wholeMicrocents: microcents, firstStepMicrocents: microcents, tokens }
}
