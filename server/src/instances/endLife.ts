/**
 * The changes of an instance's money, within the transactions that bill and end it. Its row is locked, then its
 * account.
 */

import { readFigures } from '../billing/admission/accounts/figures.ts'
import { firstInsufficient, gatesOfLiving, headroomOf, leastHeadroom } from '../billing/admission/gates.ts'
import {
  endInstanceHold,
  extendInstanceHold,
  type InstanceHold,
  shrinkInstanceHold,
} from '../billing/admission/holds/instanceHold.ts'
import { priceInstanceLife, secondsOfInstancePaidBy } from '../billing/charges/pricing.ts'
import { chargesOf, postInstanceCharges } from '../billing/charges/settleInstance.ts'
import type { Transaction } from '../infra/postgres/database.ts'
import { cancelOperations, endOperations } from '../operations/accept.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import type { Instance, InstanceReason } from './job/instance.ts'
import { moveInstance } from './store.ts'

export type MoneyMeans = Pick<InstanceDependencies, 'lowBalanceMicrocents' | 'onDayMended'>

/** The hold of an instance: the money for the seconds that are held and not settled. */
export function holdOf({ id, organizationId, hourMicrocents, settledSecond, heldSecond }: Instance): InstanceHold {
  const microcents = priceInstanceLife(hourMicrocents, heldSecond) - priceInstanceLife(hourMicrocents, settledSecond)
  return { id, organizationId, microcents }
}

/** Charges an instance up to a second, within its hold. Returns it as it is then, and whether there is somebody to be told. */
export async function chargeLife(
  tx: Transaction,
  { lowBalanceMicrocents, onDayMended }: Pick<MoneyMeans, 'lowBalanceMicrocents' | 'onDayMended'>,
  instance: Instance,
  toSecond: number,
  nowMs: number,
): Promise<{ readonly instance: Instance; readonly noticed: boolean }> {
  const endSecond = Math.min(toSecond, instance.heldSecond)
  if (endSecond <= instance.settledSecond) return { instance, noticed: false }
  const { id: instanceId, organizationId, principalId: keyId, gpuType, gpuCount, createdAtMs, settledSecond } = instance
  const charges = chargesOf({
    ...{ instanceId, organizationId, keyId, gpuType, gpuCount, createdAtMs },
    perGpuHourMicrocents: instance.hourMicrocents / BigInt(gpuCount),
    fromSecond: settledSecond,
    toSecond: endSecond,
  })
  const settled = { ...instance, settledSecond: endSecond }
  await shrinkInstanceHold(tx, holdOf(instance), holdOf(instance).microcents - holdOf(settled).microcents)
  const noticed = await postInstanceCharges(tx, organizationId, charges, nowMs, lowBalanceMicrocents, onDayMended)
  return { instance: settled, noticed }
}

/** Leaves the seconds up to one of them free: nothing was held for them, since no process came to bill the instance in time. */
export async function skipLife(tx: Transaction, instance: Instance, toSecond: number): Promise<Instance> {
  await shrinkInstanceHold(tx, holdOf(instance), holdOf(instance).microcents)
  return { ...instance, settledSecond: toSecond, heldSecond: toSecond }
}

/** An instance after money was held for its next seconds; `isWhole`: for all of those that were asked for. */
export interface HeldAhead {
  readonly instance: Instance
  readonly isWhole: boolean
}

/** Holds the money for the seconds up to one of them; where a gate leaves less, for as many as that pays for. */
export async function coverLife(
  tx: Transaction,
  instance: Instance,
  toSecond: number,
  nowMs: number,
): Promise<HeldAhead> {
  const whole = await holdUpTo(tx, instance, toSecond, nowMs)
  if (whole !== null) return { instance: whole, isWhole: true }
  const { organizationId, hourMicrocents, heldSecond } = instance
  const figures = await readFigures(tx, organizationId, nowMs)
  const left = figures === null ? null : leastHeadroom(headroomOf(figures), gatesOfLiving(figures))
  const paid = priceInstanceLife(hourMicrocents, heldSecond) + (left ?? 0n)
  const second = Math.min(secondsOfInstancePaidBy(hourMicrocents, paid), toSecond)
  const part = second > heldSecond ? await holdUpTo(tx, instance, second, nowMs) : null
  return { instance: part ?? instance, isWhole: false }
}

/** Returns whether the balance leaves no money for one more second of an instance; if it leaves some, a limit does not. */
export async function isBalanceUsedUp(
  tx: Transaction,
  { organizationId, hourMicrocents, heldSecond }: Instance,
  nowMs: number,
): Promise<boolean> {
  const figures = await readFigures(tx, organizationId, nowMs)
  const needed = priceInstanceLife(hourMicrocents, heldSecond + 1) - priceInstanceLife(hourMicrocents, heldSecond)
  return figures === null || firstInsufficient(headroomOf(figures), 0n, needed, ['balance']) !== null
}

/** Null: a gate leaves less, and nothing has changed. */
async function holdUpTo(
  tx: Transaction,
  instance: Instance,
  toSecond: number,
  nowMs: number,
): Promise<Instance | null> {
  if (toSecond <= instance.heldSecond) return instance
  const covered = { ...instance, heldSecond: toSecond }
  const more = holdOf(covered).microcents - holdOf(instance).microcents
  return (await extendInstanceHold(tx, holdOf(instance), more, nowMs)) ? covered : null
}

/** How and when an instance that is live ends. */
export interface LifeEnd {
  readonly reason: InstanceReason
  /** Up to here it is charged, as far as that was held for. */
  readonly second: number
  readonly endedAtMs: number
}

/** Why an instance that never ran was ended, for its operation. */
const NEVER_RAN = 'The instance was ended before it ran, and cost nothing.'

/**
 * Ends the life of an instance that is live: charges the rest, ends the hold, and leaves the machine to the driver. One that never ran
 * costs nothing, unless its customer deleted it. Returns the instance, and whether there is somebody to be told.
 */
export async function endLife(
  tx: Transaction,
  means: MoneyMeans,
  instance: Instance,
  { reason, second, endedAtMs }: LifeEnd,
  nowMs: number,
): Promise<{ readonly instance: Instance | null; readonly noticed: boolean }> {
  const isFree = instance.state === 'creating' && reason !== 'deleted'
  const charged = isFree ? { instance, noticed: false } : await chargeLife(tx, means, instance, second, nowMs)
  await endInstanceHold(tx, holdOf(charged.instance), instance.hourMicrocents)
  if (instance.state === 'creating') {
    const creation = { resourceId: instance.id, kind: 'instance.create' } as const
    if (reason === 'deleted') await cancelOperations(tx, creation, nowMs)
    else await endOperations(tx, 'fail', creation, { atMs: nowMs, errorDetail: NEVER_RAN })
  }
  const moved = await moveInstance(tx, 'terminate', instance, {
    ...{ dueAtMs: nowMs, reason, endedAtMs },
    settledSecond: charged.instance.settledSecond,
  })
  return { instance: moved, noticed: charged.noticed }
}
