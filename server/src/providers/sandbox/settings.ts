import type { ProviderFailureKind } from '../dialect/spec.ts'

/** How a sandbox model behaves where a call's own directive does not say otherwise. */
export interface SandboxSettings {
  /** Milliseconds from the call to its first token. */
  readonly firstTokenMs: number
  /** Tokens a second after the first; null gives them as fast as they are taken. */
  readonly tokensPerSecond: number | null
  /** Tokens of every reply; null lets the reply be as long as its sentences are. */
  readonly replyTokens: number | null
  /** Seconds of a clip that are made in a second; null: all at once. */
  readonly videoSecondsPerSecond: number | null
  /** Every call fails so. */
  readonly failure?: SandboxFailure
}

export interface SandboxFailure {
  readonly kind: ProviderFailureKind
  /** Tokens that come before it; with 0 nothing of an answer does. */
  readonly afterTokens: number
}
