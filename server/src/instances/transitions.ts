/**
 * The transitions of an instance beside its bills, each in one transaction with all that goes with it. Null: another
 * process has the instance, or its state is past that.
 */

import { lock } from '../billing/admission/holds/hold.ts'
import { endInstanceHold } from '../billing/admission/holds/instanceHold.ts'
import { prepareInstanceCharges } from '../billing/charges/settleInstance.ts'
import type { Participant } from '../infra/postgres/database.ts'
import { joinAll } from '../infra/postgres/joinAll.ts'
import { acceptOperation, endOperations, latestOperation } from '../operations/accept.ts'
import { acceptedOperation, type NewOperation, type Operation } from '../operations/operation.ts'
import { reachOf } from './access/address.ts'
import type { DriverMachine } from './drivers/driver.ts'
import { endLife, holdOf, type LifeEnd } from './endLife.ts'
import { publishInstance } from './events.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { type Instance, type InstanceReason, instantOfSecond, isLive, lastSecondAt, secondAt } from './job/instance.ts'
import { findInstance, isToBeRemoved, lockInstance, moveInstance, setMissing, writeDue } from './store.ts'

export type TransitionMeans = Pick<
  InstanceDependencies,
  'database' | 'clock' | 'publish' | 'lowBalanceMicrocents' | 'onDayMended' | 'onNoticed' | 'reached'
>

/** The driver says that its app answers. */
export async function noteRunning(
  means: TransitionMeans & Pick<InstanceDependencies, 'settings'>,
  instance: Instance,
  machine: DriverMachine,
): Promise<Instance | null> {
  const { database, clock } = means
  const { appUser, ...reach } = reachOf(means.settings.access, instance.id, machine)
  const { appUrl, terminalUrl } = reach
  const runningAtMs = clock.now()
  const running = await database.transaction(async (tx) => {
    const moved = await moveInstance(tx, 'run', instance, { dueAtMs: null, runningAtMs, ...reach })
    if (moved === null) return null
    const creation = { resourceId: instance.id, kind: 'instance.create' } as const
    await endOperations(tx, 'succeed', creation, { atMs: runningAtMs, result: { appUrl, terminalUrl, appUser } })
    await publishInstance(tx, means, 'instance.running', moved)
    return moved
  })
  await means.reached?.('running')
  return running
}

const DETAILS = {
  create_refused:
    'This GPU type, or the app on it, could not be provided. Nothing was charged. Try again later, or choose another.',
  create_timeout: 'The instance did not run in time. Nothing was charged; try again.',
} as const

/** It never ran, and costs nothing. The driver is asked to delete what there is of it. */
export async function failInstance(
  means: TransitionMeans,
  instance: Instance,
  reason: keyof typeof DETAILS,
): Promise<Instance | null> {
  const { database, clock } = means
  const nowMs = clock.now()
  return database.transaction(async (tx) => {
    const own = await lockInstance(tx, instance.id)
    if (own === null) return null
    await lock(tx, own.organizationId)
    const moved = await moveInstance(tx, 'fail', instance, { dueAtMs: nowMs, endedAtMs: nowMs, reason })
    if (moved === null) return null
    await endInstanceHold(tx, holdOf(own), own.hourMicrocents)
    const creation = { resourceId: own.id, kind: 'instance.create' } as const
    await endOperations(tx, 'fail', creation, { atMs: nowMs, errorDetail: DETAILS[reason] })
    await publishInstance(tx, means, 'instance.failed', moved)
    return moved
  })
}

/**
 * Accepts the deletion of an instance by its customer, with `participants`, which keep the answer. Of one that is over, the operation
 * that this principal had it deleted by, or one that has succeeded. Null: there is no such instance.
 */
export async function deleteInstance(
  means: TransitionMeans,
  { id, organizationId }: Pick<Instance, 'id' | 'organizationId'>,
  operation: NewOperation,
  keep: (accepted: Operation, hasEnded: boolean) => Promise<readonly Participant[]>,
): Promise<Operation | null> {
  const { database, clock } = means
  const nowMs = clock.now()
  const found = await findInstance(database, organizationId, id)
  if (found === null) return null
  await prepareInstanceCharges(database, instantOfSecond(found, found.settledSecond), nowMs)
  let mustTell = false
  const accepted = await database.transaction(async (tx) => {
    const own = await lockInstance(tx, id, organizationId)
    if (own === null) return null
    const deletion = { resourceId: id, kind: 'instance.delete' } as const
    const earlier = isLive(own) ? null : await latestOperation(tx, operation.principalId, deletion)
    if (earlier === null) await acceptOperation(tx, operation)
    if (isLive(own)) {
      await lock(tx, organizationId)
      const second = lastSecondAt(own, nowMs)
      // While this waited for the row, it may have been billed to a later second.
      const endedAtMs = Math.max(nowMs, instantOfSecond(own, own.settledSecond))
      const { noticed } = await endLife(tx, means, own, { reason: 'deleted', second, endedAtMs }, nowMs)
      mustTell = noticed
    } else if (earlier === null && !(await isToBeRemoved(tx, id))) {
      await endOperations(tx, 'succeed', deletion, { atMs: nowMs })
    }
    const answer =
      earlier ?? (await latestOperation(tx, operation.principalId, deletion)) ?? acceptedOperation(operation)
    await joinAll(tx, await keep(answer, isLive(own)))
    await means.reached?.('terminating')
    return answer
  }, organizationId)
  await means.reached?.('terminated')
  if (mustTell) means.onNoticed()
  return accepted
}

/** Ends an instance that runs since its app has ended, or the driver has lost it. */
export async function endRunning(
  means: TransitionMeans,
  instance: Instance,
  reason: Extract<InstanceReason, 'app_ended' | 'lost'>,
  endedAtMs: number,
): Promise<void> {
  const { database, clock } = means
  const nowMs = clock.now()
  await prepareInstanceCharges(database, instantOfSecond(instance, instance.settledSecond), nowMs)
  const noticed = await database.transaction(async (tx) => {
    const own = await lockInstance(tx, instance.id)
    if (own === null || own.state !== 'running') return false
    await lock(tx, own.organizationId)
    const second = Math.max(secondAt(own, endedAtMs), own.settledSecond)
    const end: LifeEnd = { reason, second, endedAtMs: Math.max(endedAtMs, instantOfSecond(own, second)) }
    return (await endLife(tx, means, own, end, nowMs)).noticed
  })
  if (noticed) means.onNoticed()
}

/** Notes that the driver's list does not have an instance, or has it again (null). */
export function noteMissing({ database }: TransitionMeans, { id }: Instance, sinceMs: number | null): Promise<void> {
  return setMissing(database, id, sinceMs)
}

/** The driver says that nothing is left of one that had failed, or had ended before. */
export async function noteRemoved({ database, clock }: TransitionMeans, instance: Instance): Promise<void> {
  await database.transaction(async (tx) => {
    if (!(await writeDue(tx, instance, null, false))) return
    await endOperations(tx, 'succeed', { resourceId: instance.id, kind: 'instance.delete' }, { atMs: clock.now() })
  })
}

/** The driver says that nothing is left of it. */
export async function finishInstance(means: TransitionMeans, instance: Instance): Promise<Instance | null> {
  const { database, clock } = means
  const nowMs = clock.now()
  const finished = await database.transaction(async (tx) => {
    const moved = await moveInstance(tx, 'finish', instance, { dueAtMs: null })
    if (moved === null) return null
    await endOperations(tx, 'succeed', { resourceId: instance.id, kind: 'instance.delete' }, { atMs: nowMs })
    await publishInstance(tx, means, 'instance.terminated', moved)
    return moved
  })
  await means.reached?.('finished')
  return finished
}
