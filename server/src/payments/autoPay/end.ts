import type { Transaction } from '../../infra/postgres/database.ts'
import { putInForce } from './putInForce.ts'
import { updateEnded } from './store.ts'

/**
 * Switches auto-pay of an organization off for good, in the transaction that deletes it. The outcome of a payment that is under way is
 * still found out, and credited where it is paid. Locks the account, and then the agreement.
 */
export function endAutoPay(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  return putInForce(tx, organizationId, nowMs, () => updateEnded(tx, organizationId))
}
