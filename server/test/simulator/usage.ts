/**
 * The usage that a call is charged for, worked out from its script by the rules (C3, C4, C10), apart from the code
 * that does so.
 */

import type { TokenUsage } from '../../src/lib/tokenUsage.ts'
import type { Call } from './call.ts'
import { CHARACTERS_PER_TOKEN, promptAtMost, promptCount, reportedOutput, saidTokens } from './script.ts'

/** The usage of a whole answer, or of one that was cut when its client had so many tokens of it. */
export function usageOfAnswer({ resolved: served, script, maxTokens, tokensRead, hasReport }: Call): TokenUsage {
  const { contextTokens } = served.model
  const counted = { prompt: promptCount(script.promptCharacters), output: tokensRead }
  const beside = (output: number) => Math.min(counted.prompt, Math.max(0, contextTokens - output))
  const isReported = hasReport && tokensRead === saidTokens(script, maxTokens)
  const output = reportedOutput(script, tokensRead)
  const canBe = script.promptTokens <= contextTokens && output <= contextTokens
  const usage =
    isReported && canBe
      ? believed(script.promptCharacters, counted, { prompt: script.promptTokens, output }, beside)
      : { ...counted, prompt: beside(counted.output) }
  const promptTokens = Math.min(usage.prompt, promptAtMost(script.promptCharacters))
  return {
    promptTokens,
    cachedPromptTokens: isReported && canBe ? Math.min(script.cachedTokens, promptTokens) : 0,
    completionTokens: Math.min(usage.output, maxTokens ?? contextTokens, contextTokens - promptTokens),
  }
}

interface Tokens {
  readonly prompt: number
  readonly output: number
}

/** A report of more than 8 bytes a token is counted, and what is below half of its count is replaced. */
function believed(promptBytes: number, counted: Tokens, reported: Tokens, beside: (output: number) => number): Tokens {
  const outputBytes = counted.output * CHARACTERS_PER_TOKEN
  if (reported.prompt * 8 >= promptBytes && reported.output * 8 >= outputBytes) return reported
  const output = reported.output < counted.output / 2 ? counted.output : reported.output
  return { prompt: reported.prompt < counted.prompt / 2 ? beside(output) : reported.prompt, output }
}
