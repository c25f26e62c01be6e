import type { Transaction } from '../../../infra/postgres/database.ts'
import { updateExpiryOf } from './store.ts'

/**
 * Has the deposits of an organization that is deleted expire at once, so that nothing more is to be sent. Their addresses are watched as
 * long as before: tokens that come all the same are credited to it (B6).
 */
export function expireDepositsOf(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  return updateExpiryOf(tx, organizationId, nowMs)
}
