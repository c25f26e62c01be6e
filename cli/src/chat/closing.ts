import { printUsd } from '../../../server/src/lib/usd.ts'
import { dim } from '../style.ts'
import type { System } from '../system.ts'
import type { StreamedAnswer } from './ask.ts'

/** Returns the line that ends an answer on a terminal: tokens and cost, and whether the answer was cut; empty elsewhere. */
export function closingOf(
  system: System,
  { finishReason, promptTokens, completionTokens, costMicrocents }: StreamedAnswer,
): string {
  if (!system.stderrIsTerminal) return ''
  const cost = costMicrocents === null ? [] : [`$${printUsd(costMicrocents)}`]
  const cut = finishReason === 'length' ? ['cut off: raise --max-tokens'] : []
  const facts = [`${promptTokens} tokens in, ${completionTokens} out`, ...cost, ...cut]
  return `${dim(system, facts.join('; '))}\n`
}
