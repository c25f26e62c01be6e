import { doubledMs } from '../lib/backoff.ts'
import { SECOND_MS } from '../lib/time.ts'
import { startOperations } from '../operations/accept.ts'
import { CreateRefused, type DriverMachine, type MachineSpec } from './drivers/driver.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { driverNameOf, type Instance } from './job/instance.ts'
import { isAnyLeaving, writeDue } from './store.ts'
import {
  endRunning,
  failInstance,
  finishInstance,
  noteRemoved,
  noteRunning,
  type TransitionMeans,
} from './transitions.ts'

/** Between two looks at a machine that is being made or deleted. */
const LOOK_MS = 2 * SECOND_MS

/** The longest pause where the driver gives no answer. */
const MISSED_MOST_MS = 60 * SECOND_MS

export type WorkMeans = TransitionMeans & Pick<InstanceDependencies, 'log' | 'settings' | 'driver'>

/** Asks the driver what is due for an instance, which depends on its state alone. */
export async function workOn(means: WorkMeans, instance: Instance, signal: AbortSignal): Promise<void> {
  await means.reached?.('taken')
  const { log, clock, database, driver } = means
  try {
    if (instance.state === 'creating') await makeMachine(means, instance, signal)
    else if (instance.state === 'running') await lookAfter(means, instance, signal)
    else await removeMachine(means, instance, signal)
  } catch (error) {
    signal.throwIfAborted()
    log.warn({ err: error, instance: instance.id, driver: driver.kind }, 'the driver gave no answer; it is asked again')
    const nowMs = clock.now()
    const dueAtMs = nowMs + doubledMs(LOOK_MS, MISSED_MOST_MS, instance.misses)
    // An instance fails when its time to start is over. If that instant is within the pause, the instance is due then.
    const lastAtMs = instance.state === 'creating' ? Math.max(failsAt(means, instance), nowMs) : dueAtMs
    await writeDue(database, instance, Math.min(dueAtMs, lastAtMs), true)
  }
}

/** Ends an instance whose app has ended. A machine that is gone is the lists' to see: two in a row must miss it. */
async function lookAfter(means: WorkMeans, instance: Instance, signal: AbortSignal): Promise<void> {
  const { database, clock, driver } = means
  const machine = await driver.status(driverNameOf(instance.id), signal)
  if (machine?.state === 'ended') await endRunning(means, instance, 'app_ended', clock.now())
  else await writeDue(database, instance, null, false)
}

/** The instant at which an instance that does not run has failed. */
function failsAt({ settings }: WorkMeans, { createdAtMs }: Instance): number {
  return createdAtMs + settings.createTimeoutMs
}

/** Fails an instance whose time to run is over, unless the driver says that it runs: nobody may have asked since it does. */
async function lookLast(means: WorkMeans, instance: Instance, signal: AbortSignal): Promise<void> {
  const asked = means.driver.status(driverNameOf(instance.id), signal)
  const machine = await asked.catch(() => {
    signal.throwIfAborted()
    return null
  })
  if (machine?.state === 'running') await noteRunning(means, instance, machine)
  else await failInstance(means, instance, 'create_timeout')
}

async function makeMachine(means: WorkMeans, instance: Instance, signal: AbortSignal): Promise<void> {
  const { database, clock, driver } = means
  if (clock.now() >= failsAt(means, instance)) return lookLast(means, instance, signal)
  const name = driverNameOf(instance.id)
  const resource = { resourceId: instance.id, kind: 'instance.create' } as const
  const isFirst = await startOperations(database, resource, clock.now())
  await means.reached?.('started')
  let machine: DriverMachine | null = isFirst ? null : await driver.status(name, signal)
  if (machine === null) {
    const spec = specOf(means, instance)
    machine = spec === null ? null : await createMachine(means, name, spec, signal)
    await means.reached?.('made')
  }
  if (machine === null || machine.state === 'ended') await failInstance(means, instance, 'create_refused')
  else if (machine.state === 'running') await noteRunning(means, instance, machine)
  else await writeDue(database, instance, clock.now() + LOOK_MS, false)
}

/** Null: the driver never will. */
async function createMachine({ driver, database }: WorkMeans, name: string, spec: MachineSpec, signal: AbortSignal) {
  // Looked for first: it may be gone by the time that no place was found.
  const isSoonFree = await isAnyLeaving(database)
  try {
    return await driver.create(name, spec, signal)
  } catch (error) {
    if (error instanceof CreateRefused && !(error.isFull && isSoonFree)) return null
    throw error
  }
}

/** Returns the machine that the driver is to make; null: the settings do not have the app any more. */
function specOf({ settings }: WorkMeans, instance: Instance): MachineSpec | null {
  const program = settings.apps.find(({ name }) => name === instance.app)
  if (program === undefined) return null
  const { image, command, port, terminal } = program
  const { organizationId, app, gpuType, gpuCount, diskGb, model } = instance
  return { organizationId, app, image, command, port, terminal, gpuType, gpuCount, diskGb, model }
}

async function removeMachine(means: WorkMeans, instance: Instance, signal: AbortSignal): Promise<void> {
  const { database, clock, driver } = means
  const name = driverNameOf(instance.id)
  await startOperations(database, { resourceId: instance.id, kind: 'instance.delete' }, clock.now())
  // Even where there is no machine: a driver may have begun to make it.
  await driver.delete(name, signal)
  await means.reached?.('removed')
  if ((await driver.status(name, signal)) !== null) {
    await writeDue(database, instance, clock.now() + LOOK_MS, false)
    return
  }
  if (instance.state === 'terminating') await finishInstance(means, instance)
  else await noteRemoved(means, instance)
}
