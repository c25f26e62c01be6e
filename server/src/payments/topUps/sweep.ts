import type { Log } from '../../lib/log.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/time.ts'
import { type RefreshDependencies, refreshPayment } from './refresh.ts'
import { claimDue, type DueTable, deleteCallbacksBefore } from './store.ts'

/** One after the other: a payment provider counts requests. */
const CLAIMED_AT_ONCE = 20

/** By then the retrieval of all that one claim has is over, or the process that took it is dead. */
const CLAIM_MS = 5 * MINUTE_MS

/** Payment providers send a callback again for a few days. One that comes later is applied anew, and changes nothing. */
const CALLBACKS_KEPT_MS = 30 * DAY_MS

export interface PaymentSweepDependencies extends RefreshDependencies {
  readonly log: Log
}

/**
 * Retrieves the rows of a table that are due, one after the other, so that each comes to its end although no callback comes. Returns how
 * many there were. One that fails is logged, and due again.
 */
export async function sweepDue(
  { database, clock, provider, log }: PaymentSweepDependencies,
  table: DueTable,
  isStopping: () => boolean,
  refresh: (key: string) => Promise<unknown>,
): Promise<number> {
  const nowMs = clock.now()
  const at = { nowMs, untilMs: nowMs + CLAIM_MS }
  const keys = await claimDue(database, table, provider.name, at, CLAIMED_AT_ONCE)
  for (const key of keys) {
    if (isStopping()) break
    await refresh(key).catch((error: unknown) =>
      log.warn({ err: error, table, key }, 'payments: an object could not be retrieved; it is tried again'),
    )
  }
  return keys.length
}

/** Retrieves payments that are due. Returns how many there were. */
export async function sweepPayments(
  dependencies: PaymentSweepDependencies,
  isStopping: () => boolean,
): Promise<number> {
  const { database, clock } = dependencies
  const count = await sweepDue(dependencies, 'payments', isStopping, (id) => refreshPayment(dependencies, { id }))
  await deleteCallbacksBefore(database, clock.now() - CALLBACKS_KEPT_MS)
  return count
}
