/** Tokens of one call: non-negative safe integers; `completionTokens` includes reasoning tokens. */
export interface TokenUsage {
  readonly promptTokens: number
  /** The part of `promptTokens` that the provider served from its cache. */
  readonly cachedPromptTokens: number
  readonly completionTokens: number
}
