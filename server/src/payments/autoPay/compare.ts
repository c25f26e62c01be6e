import { isUuid } from '../../lib/ids.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import type { ListedPayment } from '../provider/autoPayment.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { type AdoptAutoPaymentDependencies, adoptAutoPayment } from './adopt.ts'
import { selectStates } from './store.ts'

export interface CompareDependencies extends AdoptAutoPaymentDependencies {
  readonly provider: PaymentProvider
}

/** A top-up that is paid is applied by its own retrieval so soon. */
const SOON_MS = MINUTE_MS

/** An operator is to compare the books with the payment provider; until then nothing is paid. */
const UNKNOWN_MS = 10 * MINUTE_MS

/**
 * Compares the payment provider's list of a customer's payments with ours, `list`, in which the payment under way is not. Payments
 * by auto-pay that we don't know, such as those since a backup that was restored, are adopted: inserted, and credited. Returns for
 * how long auto-pay must wait before it looks again, in milliseconds; null: every payment is known and applied.
 */
export async function compareList(
  dependencies: CompareDependencies,
  organizationId: string,
  list: readonly ListedPayment[],
  nowMs: number,
): Promise<number | null> {
  const { database, log } = dependencies
  const ours = list.filter(({ paymentId }) => isUuid(paymentId))
  const states = await selectStates(
    database,
    ours.map(({ paymentId }) => paymentId),
  )
  let waitMs: number | null = null
  const wait = (milliseconds: number) => {
    waitMs = Math.max(waitMs ?? 0, milliseconds)
  }
  for (const listed of ours) {
    const { paymentId, kind, facts } = listed
    const state = states.get(paymentId)
    const isPaid = facts.state === 'paid'
    if (state === 'paid' || (state !== undefined && !isPaid)) continue
    if (kind === 'auto_pay') {
      const isAdopted = await adoptAutoPayment(dependencies, organizationId, listed, nowMs)
      if (facts.state !== 'begun') wait(isAdopted ? 0 : SOON_MS)
    } else if (state !== undefined) {
      wait(SOON_MS)
    } else if (isPaid || facts.state === 'processing') {
      log.error({ organizationId, payment: paymentId }, UNKNOWN)
      wait(UNKNOWN_MS)
    }
  }
  return waitMs
}

const UNKNOWN =
  'auto-pay waits: the payment provider has a payment of this organization that is not in the books; run "tollgate payments reconcile"'
