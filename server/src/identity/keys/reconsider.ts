import type { Transaction } from '../../infra/postgres/database.ts'
import { HOUR_MS } from '../../lib/time.ts'
import { announceAdminKeysOf, announceKeysOf } from './store.ts'

/** A change that gives a key more time looked at the key before it expired, and has committed by then. */
const EXPIRY_IS_FINAL_MS = HOUR_MS

/** Has every process look an organization's keys up again once `tx` has committed: its limits are others then. */
export function reconsiderKeysOf(tx: Transaction, organizationId: string): Promise<void> {
  return announceKeysOf(tx, organizationId)
}

/**
 * Has every process look those keys of a member up again, once `tx` has committed, whose rights follow the member's role. `tx` has locked
 * the member. An organization may have revoked any number of keys: those that have ended are left out.
 */
export function reconsiderKeysOfMember(tx: Transaction, memberId: string, nowMs: number): Promise<void> {
  return announceAdminKeysOf(tx, memberId, nowMs - EXPIRY_IS_FINAL_MS)
}
