import { BRAND, HEADER_BRAND } from '../lib/brand.ts'
import type { DescribedHeaders } from './describedHeaders.ts'

/**
 * On every whole answer of a paid call: what it cost, in micro-cents, so that customers can add up their own bill. 0 on the
 * replay of a whole answer or a stream.
 */
export const COST_HEADER = `${HEADER_BRAND}-Cost-Microcents`

export const costHeader = {
  [COST_HEADER]: {
    description:
      'The cost in micro-cents (a millionth of a cent); 0 on a replay. Absent on a stream that is not a replay: its last ' +
      'comment has the cost.',
    schema: { type: 'integer', minimum: 0 },
  },
} as const satisfies DescribedHeaders

/**
 * The same on a stream: a comment, which no client takes for an event. It stands before `[DONE]`. A replay repeats it, byte
 * for byte.
 */
export function costComment(costMicrocents: bigint): string {
  return `: ${BRAND}-cost-microcents=${costMicrocents}\n\n`
}
