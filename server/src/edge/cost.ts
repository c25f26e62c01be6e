import { BRAND, HEADER_BRAND } from '../kernel/brand.ts'

/** On every whole answer of a paid call: what it cost, in micro-cents, so that customers can add up their own bill. */
export const COST_HEADER = `${HEADER_BRAND}-Cost-Microcents`

/** The same on a stream: a comment, which no client takes for an event. It stands before `[DONE]`. */
export function costComment(costMicrocents: bigint): string {
  return `: ${BRAND}-cost-microcents=${costMicrocents}\n\n`
}
