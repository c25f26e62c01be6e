import { Counter, type Registry } from 'prom-client'
import { CALL_SECONDS } from './callMetrics.ts'
import { labelledCounter, labelledHistogram } from './labelledMetrics.ts'

/** A call that was charged, as much of it as is counted. */
interface ChargedCall {
  readonly model: string
  readonly outcome: string
  readonly usage: {
    readonly promptTokens: number
    /** A part of the prompt's. */
    readonly cachedPromptTokens: number
    readonly completionTokens: number
  }
  /** Of images alone. */
  readonly images?: { readonly count: number }
  readonly costMicrocents: bigint
}

/** The counts of the usage that was charged for, and of its cost. */
export interface UsageMetrics {
  /** A video was charged for. */
  videoCharged(model: string, seconds: number, costMicrocents: bigint): void
  /** A call was charged. `milliseconds` is the time from its admission until the charge was durable. */
  charged(call: ChargedCall, milliseconds: number): void
}

/** `videoSeconds` counts the seconds of videos. */
export function createUsageMetrics(
  registry: Registry,
  videoSeconds: (model: string, seconds: number) => void,
): UsageMetrics {
  const tokens = labelledCounter(registry, {
    name: 'tollgate_tokens_total',
    help: 'Tokens charged for; the class cached_prompt is a part of the class prompt.',
    labelNames: ['model', 'class'],
  })
  const images = new Counter({
    name: 'tollgate_images_total',
    help: 'Images charged for.',
    labelNames: ['model'],
    registers: [registry],
  })
  const charges = labelledHistogram(
    registry,
    {
      name: 'tollgate_charged_call_duration_seconds',
      help: 'Time from the admission of a call until its charge was durable, by how the call ended.',
      labelNames: ['model', 'outcome'],
    },
    CALL_SECONDS,
  )
  const charged = labelledCounter(registry, {
    name: 'tollgate_charged_microcents_total',
    help: 'What was charged, in micro-cents.',
    labelNames: ['model', 'outcome'],
  })
  return {
    videoCharged: (model, seconds, costMicrocents) => {
      videoSeconds(model, seconds)
      charged.add(model, 'completed', Number(costMicrocents))
    },
    charged: ({ model, outcome, usage, images: made, costMicrocents }, milliseconds) => {
      charges.add(model, outcome, milliseconds / 1_000)
      charged.add(model, outcome, Number(costMicrocents))
      if (made !== undefined) images.inc({ model }, made.count)
      else {
        const { promptTokens, cachedPromptTokens, completionTokens } = usage
        tokens.add(model, 'prompt', promptTokens)
        if (cachedPromptTokens > 0) tokens.add(model, 'cached_prompt', cachedPromptTokens)
        tokens.add(model, 'completion', completionTokens)
      }
    },
  }
}
