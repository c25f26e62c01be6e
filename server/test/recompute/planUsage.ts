/** The token counts that providers report: the truth, their own count of it, or a lie. */

import type { Seeded } from '../faults/seeded.ts'

/** Reported as it stands, `null` where the answer reports none. */
export interface WireUsage {
  readonly prompt: number
  readonly cached: number
  readonly completion: number
}

/** The tokens that were on the wire, and the most that a model may use. */
export interface Truth {
  readonly promptTokens: number
  readonly promptBytes: number
  readonly outputTokens: number
  readonly outputBytes: number
  readonly contextTokens: number
  /** As the provider was told; null: it was told none. */
  readonly maxTokens: number | null
}

/** Templates have some tokens that nobody else knows of. */
const TEMPLATE_TOKENS_MOST = 60
/** The most tokens that a model thinks and does not show. */
const HIDDEN_TOKENS_MOST = 600
/** A report is looked at more closely where a token has more bytes (C4). */
const BYTES_CHECKED = 8

export function usageOf(random: Seeded, truth: Truth): WireUsage {
  const prompt = reportedPrompt(random, truth)
  const cached = random.percent(50) ? random.between(0, prompt) : 0
  return { prompt, cached, completion: outputOf(random, truth) }
}

/** Of a prompt alone: as it is, or near it, or wrong. */
export function reportedPrompt(
  random: Seeded,
  { promptTokens, promptBytes, contextTokens }: Pick<Truth, 'promptTokens' | 'promptBytes' | 'contextTokens'>,
): number {
  const chance = random.between(1, 100)
  if (chance <= 50) return promptTokens + random.between(0, TEMPLATE_TOKENS_MOST)
  // Another tokenizer than ours.
  if (chance <= 62) return random.between(Math.ceil(promptTokens / 2), Math.max(promptBytes, promptTokens))
  if (chance <= 86) return tooFew(random, promptTokens, promptBytes)
  if (chance <= 95) return promptBytes + random.between(1, 6_000)
  return contextTokens + random.pick([-1, 0, 1, 1_000])
}

function outputOf(random: Seeded, { outputTokens, outputBytes, contextTokens, maxTokens }: Truth): number {
  const chance = random.between(1, 100)
  if (chance <= 50) return outputTokens
  if (chance <= 62) return outputTokens + random.between(1, HIDDEN_TOKENS_MOST)
  if (chance <= 86) return tooFew(random, outputTokens, outputBytes)
  if (chance <= 94) return (maxTokens ?? outputTokens) + random.between(1, 5_000)
  return contextTokens + random.pick([-1, 0, 1, 1_000])
}

/** None, hardly any, and on both sides of each edge of the rule. */
function tooFew(random: Seeded, tokens: number, bytes: number): number {
  const edge = random.pick([0, 1, Math.floor(tokens / 10), Math.floor(tokens / 2), Math.ceil(bytes / BYTES_CHECKED)])
  return Math.max(0, edge + random.pick([-1, 0, 0, 1]))
}
