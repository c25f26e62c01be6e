import type { Plan, PlanPrice } from '../../catalog/plan.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS, within } from '../../lib/time.ts'
import type { PaymentProvider } from '../provider/provider.ts'

/** A price that was read, or could not be, is shown for so long. */
const KEPT_MS = MINUTE_MS

/** A page is not kept waiting for longer. */
const PATIENCE_MS = 2 * SECOND_MS

/** Returns the price of a plan at the payment provider; null where it has none, or it can't be read now. Never rejects. */
export type ReadPrice = (plan: Plan) => Promise<PlanPrice | null>

/** Nothing can be bought. */
export const noPrices: ReadPrice = async () => null

export function createPriceReader(provider: Pick<PaymentProvider, 'readPrice'>, clock: Clock, log: Log): ReadPrice {
  // As many entries as the settings have prices, of which each is replaced when it is old.
  const read = new Map<string, { readonly atMs: number; readonly price: Promise<PlanPrice | null> }>()
  return async ({ paymentPrice }) => {
    if (paymentPrice === undefined) return null
    const nowMs = clock.monotonicMs()
    const known = read.get(paymentPrice)
    if (known !== undefined && nowMs - known.atMs < KEPT_MS) return within(clock, PATIENCE_MS, known.price, null)
    const price = readOrNull(provider, log, paymentPrice)
    read.set(paymentPrice, { atMs: nowMs, price })
    return within(clock, PATIENCE_MS, price, null)
  }
}

async function readOrNull(
  provider: Pick<PaymentProvider, 'readPrice'>,
  log: Log,
  price: string,
): Promise<PlanPrice | null> {
  try {
    const read = await provider.readPrice(price)
    if (read === null)
      log.warn({ price }, 'the price of a plan is gone at the payment provider: nobody can buy the plan')
    return read
  } catch (err) {
    log.warn({ err, price }, 'the price of a plan could not be read; it is left out for a minute')
    return null
  }
}
