import type { PaidDependencies, PaidMetrics } from '../paid/dependencies.ts'
import type { TokenCounter } from './tokenCounter.ts'

export interface ChatMetrics extends PaidMetrics {
  firstToken(milliseconds: number): void
  /** Of a call that was charged. */
  tokens(model: string, promptTokens: number, completionTokens: number, cachedTokens: number): void
}

/** What a chat call needs. */
export interface ChatDependencies extends PaidDependencies {
  readonly tokenCounter: TokenCounter
  readonly metrics?: ChatMetrics
}
