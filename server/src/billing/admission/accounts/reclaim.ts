import type { Queryable } from '../../../infra/postgres/database.ts'
import { notify } from './store.ts'

/** The channel on which processes are asked to give back what they hold idle; the payload is an organization's id. */
export const RECLAIM_CHANNEL = 'tollgate_reclaim'

/**
 * Asks every process to fold what it has spent of an organization's account and to give back what it neither spent nor
 * holds. Call it after, never inside, the transaction that makes it needed: a lowered limit, a debit.
 */
export function reclaimShares(db: Queryable, organizationId: string): Promise<void> {
  return notify(db, RECLAIM_CHANNEL, organizationId)
}
