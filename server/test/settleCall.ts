import type { Admitted } from '../src/billing/admission/admit.ts'
import { type ChargingMoney, chatTerms, commit, type Delivered, prepare } from '../src/billing/charges/settle.ts'
import type { TokenRate } from '../src/catalog/price.ts'

/** Ends a call as chat does, its usage unbounded; its cost, or null when a participant withdrew it. */
export async function settleCall(
  money: ChargingMoney,
  admitted: Admitted,
  rate: TokenRate,
  delivered: Delivered,
): Promise<bigint | null> {
  const all = Number.POSITIVE_INFINITY
  const terms = chatTerms(rate, { promptTokens: all, completionTokens: all, totalTokens: all })
  const prepared = await prepare(money, admitted, terms, delivered)
  return (await commit(money, prepared)).kind === 'posted' ? prepared.charge.costMicrocents : null
}
