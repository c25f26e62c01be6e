import type { InferenceDependencies, InferenceMetrics } from '../call/dependencies.ts'
import type { TokenCounter } from './tokenCounter.ts'

export interface ChatMetrics extends InferenceMetrics {
  firstToken(milliseconds: number): void
}

/** The dependencies of a chat call. Without `metrics`, nothing is measured. */
export interface ChatDependencies extends InferenceDependencies {
  readonly tokenCounter: TokenCounter
  readonly metrics?: ChatMetrics
}
