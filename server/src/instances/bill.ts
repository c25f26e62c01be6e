import { readFigures } from '../billing/admission/accounts/figures.ts'
import { gatesOfLiving, insufficientFunds } from '../billing/admission/gates.ts'
import { lock } from '../billing/admission/holds/hold.ts'
import { prepareInstanceCharges } from '../billing/charges/settleInstance.ts'
import { noteInstance } from '../billing/notices/noteInstance.ts'
import type { InstanceSettings } from '../catalog/offering.ts'
import type { Transaction } from '../infra/postgres/database.ts'
import { divideRoundingUp } from '../lib/money.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { chargeLife, coverLife, endLife, holdOf, isBalanceUsedUp, type LifeEnd, skipLife } from './endLife.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { type Instance, instantOfSecond, isLive, knownUntilMs, lastSecondAt, secondAt } from './job/instance.ts'
import { lockInstance, writeBilled } from './store.ts'

/** Where money is short, it is asked for again after this long: some may come back from processes, or be added. */
const SHORT_MS = 10 * SECOND_MS

/** The parts of a process that bill instances. */
export type BillMeans = Pick<
  InstanceDependencies,
  'database' | 'clock' | 'log' | 'lowBalanceMicrocents' | 'onDayMended' | 'money' | 'onNoticed' | 'reached'
> & { readonly settings: Pick<InstanceSettings, 'coverSeconds'> }

/** The result of one billing. */
interface Billed {
  readonly noticed: boolean
  /** No further money could be held. */
  readonly isShort: boolean
  readonly ended: LifeEnd | null
}

const NOTHING: Billed = { noticed: false, isShort: false, ended: null }

/**
 * Bills a live instance: charges the minutes that are over, holds the money for the next ones, and ends it when its money or its time
 * is over. All of it is one transaction on the instance's own row, so it does no harm when two processes do it.
 */
export async function billInstance(means: BillMeans, instance: Instance): Promise<void> {
  const { database, clock, money, log } = means
  const nowMs = clock.now()
  await prepareInstanceCharges(database, instantOfSecond(instance, instance.settledSecond), nowMs)
  const billed = await database.transaction(async (tx) => {
    const own = await lockInstance(tx, instance.id)
    if (own === null || !isLive(own)) return NOTHING
    await lock(tx, own.organizationId)
    const done = await billLocked(tx, means, own, nowMs)
    await means.reached?.('charging')
    return done
  })
  await means.reached?.('charged')
  if (billed.noticed) means.onNoticed()
  if (billed.ended !== null) {
    log.info({ instance: instance.id, reason: billed.ended.reason }, 'an instance is over, and its machine is deleted')
  }
  if (billed.isShort) money.reclaim(money.share(instance.organizationId))
}

async function billLocked(tx: Transaction, means: BillMeans, own: Instance, nowMs: number): Promise<Billed> {
  const figures = await readFigures(tx, own.organizationId, nowMs)
  const lifeMs = figures?.autoTerminateHours == null ? Number.POSITIVE_INFINITY : figures.autoTerminateHours * HOUR_MS
  const overAtMs = own.createdAtMs + lifeMs
  if (nowMs >= overAtMs) {
    // It costs nothing while the driver does not know it.
    const second = lastSecondAt(own, overAtMs)
    return finishLife(
      tx,
      means,
      own,
      { reason: 'auto_terminate', second, endedAtMs: instantOfSecond(own, second) },
      nowMs,
    )
  }
  const caughtUp = await catchUp(tx, means, own, nowMs)
  const { heldSecond: lastSecond } = caughtUp.instance
  const nowSecond = secondAt(own, nowMs)
  const isLate = nowSecond > lastSecond
  if (isLate) {
    means.log.warn(
      { instance: own.id },
      'an instance was not billed in time; the seconds that were not held for are free',
    )
  }
  const instance = isLate ? await skipLife(tx, caughtUp.instance, nowSecond) : caughtUp.instance
  const { instance: after, isWhole } = await coverLife(tx, instance, nowSecond + means.settings.coverSeconds, nowMs)
  if (!isWhole && after.heldSecond <= nowSecond) return runOut(tx, means, after, lastSecond, nowMs)
  const isShort = !isWhole
  const told = isShort && (await tellShort(tx, means, after, nowMs))
  const shortSinceMs = isShort ? (told ? nowMs : instance.shortSinceMs) : null
  const dueAtMs = Math.min(
    (Math.floor(nowMs / MINUTE_MS) + 1) * MINUTE_MS,
    isShort ? Math.min(nowMs + SHORT_MS, instantOfSecond(after, after.heldSecond)) : Number.POSITIVE_INFINITY,
    overAtMs,
  )
  const { settledSecond, heldSecond } = after
  await writeBilled(tx, own, { settledSecond, heldSecond, shortSinceMs, billDueAtMs: dueAtMs })
  return { noticed: caughtUp.noticed || told, isShort, ended: null }
}

/**
 * Charges the minutes that are over. Nothing is charged before an instance runs, so that one that never does costs nothing; and
 * nothing while the driver does not know it.
 */
function catchUp(tx: Transaction, means: BillMeans, own: Instance, nowMs: number) {
  const { heldSecond } = own
  if (own.state === 'creating') return { instance: own, noticed: false }
  const untilMs = knownUntilMs(own, nowMs)
  const isLate = secondAt(own, nowMs) > heldSecond
  const minute = secondAt(own, Math.floor(untilMs / MINUTE_MS) * MINUTE_MS)
  return chargeLife(tx, means, own, isLate ? secondAt(own, untilMs) : minute, nowMs)
}

/** The price of a minute, rounded up. */
function minuteOf({ hourMicrocents }: Instance): bigint {
  return divideRoundingUp(hourMicrocents, 60n)
}

/** Ends an instance whose money has run out, at the last second that was held for. */
async function runOut(
  tx: Transaction,
  means: BillMeans,
  own: Instance,
  second: number,
  nowMs: number,
): Promise<Billed> {
  const reason = (await isBalanceUsedUp(tx, own, nowMs)) ? 'insufficient_balance' : 'spending_limit'
  return finishLife(tx, means, own, { reason, second, endedAtMs: instantOfSecond(own, second) }, nowMs)
}

async function finishLife(
  tx: Transaction,
  means: BillMeans,
  own: Instance,
  end: LifeEnd,
  nowMs: number,
): Promise<Billed> {
  const { noticed } = await endLife(tx, means, own, end, nowMs)
  return { noticed, isShort: false, ended: end }
}

/**
 * Notes once that an instance is about to end, where no money that processes hold idle could change that, or half of its time is over.
 * True: it was noted now.
 */
async function tellShort(tx: Transaction, means: BillMeans, own: Instance, nowMs: number): Promise<boolean> {
  if (own.shortSinceMs !== null) return false
  const { id: instanceId, organizationId, hourMicrocents } = own
  const figures = await readFigures(tx, organizationId, nowMs)
  const leftSeconds = own.heldSecond - secondAt(own, nowMs)
  const mayComeBack = figures !== null && insufficientFunds(figures, gatesOfLiving(figures), minuteOf(own)) === null
  if (mayComeBack && leftSeconds > means.settings.coverSeconds / 2) return false
  await noteInstance(tx, {
    ...{ instanceId, organizationId, hourMicrocents, atMs: nowMs },
    heldMicrocents: holdOf(own).microcents,
  })
  return true
}
