import { BRAND, HEADER_BRAND } from '../kernel/brand.ts'
import type { DescribedHeaders } from './describedHeaders.ts'

/** On every whole answer of a paid call: what it cost, in micro-cents, so that customers can add up their own bill. */
export const COST_HEADER = `${HEADER_BRAND}-Cost-Microcents`

export const costHeader = {
  [COST_HEADER]: {
    description:
      'What it cost, in micro-cents (a millionth of a cent). Absent on a replay, and on a stream, whose last comment says it.',
    schema: { type: 'integer', minimum: 0 },
  },
} as const satisfies DescribedHeaders

/** The same on a stream: a comment, which no client takes for an event. It stands before `[DONE]`. */
export function costComment(costMicrocents: bigint): string {
  return `: ${BRAND}-cost-microcents=${costMicrocents}\n\n`
}
