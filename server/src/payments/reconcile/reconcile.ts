import type { Queryable } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import type { ProviderWindow } from '../provider/reversal.ts'
import { finishRefunds } from '../reversals/refund.ts'
import type { SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { type ComparisonWatch, compareWindow } from './compare.ts'
import type { PaymentDifference } from './difference.ts'
import {
  claimReconciliation,
  selectReconciledUntil,
  selectWindowEnd,
  updateReconciledUntil,
  updateReconciliationDue,
} from './store.ts'

/** The longest window that is listed at once: a comparison that was interrupted goes on with the window at which it was. */
const WINDOW_MS = 7 * DAY_MS

/** A window is shorter where more payments than this, or refunds and disputes, are in it: so many are held in memory. */
const HELD_MOST = 10_000

/** Lists are compared so often: refunds and disputes that no callback tells of are found by then. */
const EVERY_MS = 10 * MINUTE_MS
const AGAIN_MS = MINUTE_MS

/** Where nothing was ever compared, or the last reconciled instant can't be right. */
const LOOK_BACK_MS = 30 * DAY_MS

/** Told while windows are compared. */
export interface ReconcileWatch extends Pick<ComparisonWatch, 'onListed'> {
  readonly onReconciled?: (untilMs: number) => Promise<void>
  readonly onCompared?: (untilMs: number) => void
}

/**
 * Compares everything of a window with the payment provider, at most a week after the other, and yields what differs. `onReconciled` is told
 * up to when all is known here: not past a refund or dispute whose payment is not posted yet, nor past a checkout that is not known and that
 * somebody may still pay, nor past an object that can't be read now. `onCompared` is told up to when the comparison has come.
 */
export async function* reconcile(
  dependencies: SubscriptionRefreshDependencies,
  { fromMs, untilMs }: ProviderWindow,
  { onReconciled = async () => {}, onCompared = () => {}, onListed = () => {} }: ReconcileWatch = {},
): AsyncIterable<PaymentDifference> {
  let isKnown = true
  let knownUntilMs = untilMs
  const onOpen = (createdAtMs: number) => {
    knownUntilMs = Math.min(knownUntilMs, createdAtMs)
  }
  const { database, provider } = dependencies
  // One object may be in two lists, and in two windows, which overlap.
  const unreadable = new Set<string>()
  for (let startMs = fromMs, endMs = fromMs; startMs < untilMs; startMs = endMs) {
    const week = { fromMs: startMs, untilMs: Math.min(startMs + WINDOW_MS, untilMs) }
    endMs = await selectWindowEnd(database, provider.name, week, HELD_MOST)
    const window = { fromMs: startMs, untilMs: endMs }
    for await (const difference of compareWindow(dependencies, window, { onOpen, onListed })) {
      if (difference.kind === 'reversal' && !difference.isMended) isKnown = false
      if (difference.unreadable !== undefined) {
        onOpen(difference.unreadable.createdAtMs)
        if (unreadable.has(difference.object)) continue
        unreadable.add(difference.object)
      }
      yield difference
    }
    onCompared(endMs)
    if (isKnown) await onReconciled(Math.min(endMs, knownUntilMs))
  }
}

/** Returns the window from the last reconciled instant on. */
export async function openWindow(
  database: Queryable,
  provider: PaymentProviderName,
  nowMs: number,
): Promise<ProviderWindow> {
  return { fromMs: (await selectReconciledUntil(database, provider)) ?? nowMs - LOOK_BACK_MS, untilMs: nowMs }
}

/** Notes that all before an instant is known here. */
export function noteReconciled(database: Queryable, provider: PaymentProviderName, untilMs: number): Promise<void> {
  return updateReconciledUntil(database, provider, untilMs)
}

/**
 * Compares what the payment provider has made since the last reconciled instant, where that is due: when a process has started, and every
 * ten minutes. Refunds whose outcome is unknown are carried out first. Of several processes one does it. Returns whether it was done.
 */
export async function reconcileDue(
  dependencies: SubscriptionRefreshDependencies,
  startedAtMs: number,
  isStopping: () => boolean,
): Promise<boolean> {
  const { database, clock, provider, log } = dependencies
  const nowMs = clock.now()
  const at = { nowMs, startedAtMs, untilMs: nowMs + EVERY_MS, backToMs: nowMs - LOOK_BACK_MS }
  const fromMs = await claimReconciliation(database, provider.name, at)
  if (fromMs === undefined) return false
  const note = (untilMs: number) => noteReconciled(database, provider.name, untilMs)
  try {
    await finishRefunds(dependencies)
    for await (const difference of reconcile(dependencies, { fromMs, untilMs: nowMs }, { onReconciled: note })) {
      logDifference(log, difference)
      if (isStopping()) break
    }
  } catch (error) {
    log.warn({ err: error }, 'payments: the payment provider could not be compared with the ledger; it is tried again')
    await updateReconciliationDue(database, provider.name, nowMs + AGAIN_MS)
  }
  return true
}

function logDifference(log: Log, { kind, object, organizationId, isMended, unreadable }: PaymentDifference): void {
  const fields = { kind, object, organization: organizationId }
  if (unreadable !== undefined) {
    const advice = 'payments: the payment provider can not give an object now; the next comparison tries it again'
    log.warn({ kind, object, why: unreadable.why }, advice)
  } else if (isMended) log.info(fields, 'payments: the payment provider had this, and it is posted now')
  else log.warn(fields, 'payments: ledger and payment provider differ: run "tollgate payments reconcile"')
}
