import type { Transaction } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { putInForce } from './putInForce.ts'
import { updateMended } from './store.ts'

/**
 * Returns what is done when an organization has saved a payment method: earlier declines count no more, auto-pay that was switched
 * off by them is on again, and a payment is due at once where the balance is below the threshold.
 */
export function mendAutoPay(clock: Clock): (tx: Transaction, organizationId: string) => Promise<void> {
  return (tx, organizationId) => putInForce(tx, organizationId, clock.now(), () => updateMended(tx, organizationId))
}
