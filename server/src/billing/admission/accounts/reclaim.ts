import type { Queryable } from '../../../infra/postgres/database.ts'
import { notify } from './store.ts'

/** The channel on which processes are asked to give back what they hold idle; the payload is an organization's id. */
export const RECLAIM_CHANNEL = 'tollgate_reclaim'

/** The channel on which processes hear that an account has changed; the payload is an organization's id. */
export const CHANGE_CHANNEL = 'tollgate_account'

/**
 * Asks every process that has something to fold or to give back of an organization's account to do so: a call or a job is short of it. A
 * process whose share is held for its calls to the last micro-cent does nothing.
 */
export function reclaimShares(db: Queryable, organizationId: string): Promise<void> {
  return notify(db, RECLAIM_CHANNEL, organizationId)
}

/**
 * Has every process come into line with an account: it gives back what is idle there, and shrinks what its running calls hold where the
 * customer's limits say so. Call it after, never inside, the transaction that makes it needed: a limit that was set, a debit, the terms of
 * auto-pay.
 */
export function tellChange(db: Queryable, organizationId: string): Promise<void> {
  return notify(db, CHANGE_CHANNEL, organizationId)
}
