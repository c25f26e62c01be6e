import type { Transaction } from '../../infra/postgres/database.ts'
import { announceKeysOf } from './store.ts'

/**
 * Has every process look an organization's keys up again once `tx` has committed: its limits, or the role of
 * a member, are others then.
 */
export function reconsiderKeysOf(tx: Transaction, organizationId: string): Promise<void> {
  return announceKeysOf(tx, organizationId)
}
