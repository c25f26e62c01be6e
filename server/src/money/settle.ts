import type { TokenRate } from '../catalog/price.ts'
import type { Rider } from '../io/postgres/database.ts'
import type { TokenUsage } from '../upstream/spec.ts'
import type { Admitted, Money } from './admit.ts'
import type { Charge, Outcome } from './charge.ts'
import { priceTokens, weightedTokens } from './pricing.ts'

/** What there is to charge for. */
export interface Delivered {
  readonly usage: TokenUsage
  /** True when the tokens were counted here because the upstream reported none. */
  readonly estimated: boolean
  /** The target that served it. */
  readonly target: string
  readonly outcome: Outcome
}

/**
 * Charges a call at `rate`, the one in force when it was admitted, and ends its hold. The money leaves the wallet at once; the promise resolves when the charge is durable,
 * however long the database takes: an answer that waits for it must not leave before. Returns the cost in micro-cents; a
 * call that a plan covers costs nothing, and counts on the plan's meter instead.
 * Throws when the call's hold has ended before: a call is charged once. What `ridersFor` makes of the cost is committed
 * together with the charge; it must not reject.
 */
export async function settle(
  money: Money,
  admitted: Admitted,
  rate: TokenRate,
  delivered: Delivered,
  ridersFor?: (costMicrocents: bigint) => Promise<readonly Rider[]>,
): Promise<bigint> {
  const charge = chargeFor(admitted, rate, delivered)
  admitted.hold.spend(charge.costMicrocents)
  const wallet = money.wallet(admitted.admission.organizationId)
  if (charge.metered !== undefined) wallet.plan?.add(charge.metered)
  await money.writer.post(charge, wallet, ridersFor === undefined ? undefined : await ridersFor(charge.costMicrocents))
  return charge.costMicrocents
}

function chargeFor({ admission }: Admitted, rate: TokenRate, delivered: Delivered): Charge {
  const listMicrocents = priceTokens(rate, delivered.usage)
  const { cover } = admission
  if (cover === undefined) return { ...admission, ...delivered, costMicrocents: listMicrocents }
  const metered = { ...weightedTokens(delivered.usage, cover.factorThousandths), listMicrocents }
  return { ...admission, ...delivered, costMicrocents: 0n, metered }
}
