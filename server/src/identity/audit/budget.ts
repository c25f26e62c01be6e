/** The bound on the changes that an organization makes: without one it fills the log, which is kept for 400 days, for nothing (K7). */

import type { Participant, Transaction } from '../../infra/postgres/database.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { HOUR_MS, SECOND_MS, secondsUntil } from '../../lib/time.ts'
import { addToBudget, readSpentUntil } from './store.ts'

/**
 * Changes at once, and then in an hour: more than people and their programs make, and some 10 MB of the log in a day. A key may send
 * 100 requests a second.
 */
export const CHANGES_AN_HOUR = 300
const BUDGET = { wholeMs: HOUR_MS, changeMs: HOUR_MS / CHANGES_AN_HOUR }

/**
 * Counts a change of an organization, in the transaction that makes it. Throws {@link Refused} (`rate_limit_exceeded`) where the budget is
 * used up. Call it for a change that makes something or can be repeated. Never call it for one that ends something or takes rights away.
 * Call it when the transaction has locked what it changes: changes of the organization at the same time wait here for its end.
 */
export async function countChange(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  if (await addToBudget(tx, organizationId, nowMs, BUDGET)) return
  const spentUntilMs = (await readSpentUntil(tx, organizationId)) ?? nowMs
  const retryAfterSeconds = secondsUntil(spentUntilMs + BUDGET.changeMs - BUDGET.wholeMs, nowMs)
  const message = `Your organization has made ${CHANGES_AN_HOUR} changes, the most that it may within a short time. One more is possible every ${BUDGET.changeMs / SECOND_MS} seconds. Nothing was changed; try again in ${retryAfterSeconds} seconds. Revoking, removing and deleting are always possible.`
  throw new Refused(refusal('rate_limit_exceeded', message, { retryAfterSeconds }))
}

/** Returns the work that counts a change, for the rooms that hand such work into a transaction. */
export function counting(organizationId: string, nowMs: number): Participant {
  return async (tx) => {
    await countChange(tx, organizationId, nowMs)
    return true
  }
}
