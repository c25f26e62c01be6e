import { isUuid, LOWEST_UUID } from '../lib/ids.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { DriverMachine } from './drivers/driver.ts'
import { driverNameOf, type Instance, idOfDriverName } from './job/instance.ts'
import { findKnown, listRunning, removeAgain, takeListTurn } from './store.ts'
import { endRunning, noteMissing } from './transitions.ts'
import type { WorkMeans } from './work.ts'

/** Lists follow each other by at least so much, whichever processes ask for them. */
const LISTS_APART_MS = MINUTE_MS - 5 * SECOND_MS

/** A list that takes longer counts as none. */
const LIST_MS = MINUTE_MS

const PAGE = 500

/** Names in one log line. */
const NAMES_MOST = 20

/**
 * Compares the driver's list of all machines with the instances. One whose app has ended ends. One that two lists in a row do not
 * have has been lost, and costs nothing since the first of them. A machine that nobody is billed for is reported, and deleted where it is
 * one of ours. Does nothing where another process has asked within the minute.
 */
export async function reconcileMachines(means: WorkMeans, isStopping: () => boolean): Promise<void> {
  const { database, clock, driver } = means
  const askedAtMs = clock.now()
  if (!(await takeListTurn(database, driver.kind, askedAtMs, askedAtMs - LISTS_APART_MS))) return
  const deadline = new AbortController()
  const cancel = clock.after(LIST_MS, () => deadline.abort())
  const listed = await driver.list(deadline.signal).finally(cancel)
  const machines = new Map(listed.map((machine) => [machine.name, machine]))
  for (let after = LOWEST_UUID; !isStopping(); ) {
    // One that runs only since the list was asked for may not be in it.
    const page = await listRunning(database, askedAtMs, after, PAGE)
    for (const instance of page) await compare(means, instance, machines.get(driverNameOf(instance.id)), askedAtMs)
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) break
    after = last.id
  }
  await reportUnbilled(means, [...machines.keys()])
}

async function compare(
  means: WorkMeans,
  instance: Instance,
  machine: DriverMachine | undefined,
  askedAtMs: number,
): Promise<void> {
  const { missingSinceMs } = instance
  if (machine?.state === 'ended') {
    await endRunning(means, instance, 'app_ended', means.clock.now())
  } else if (machine !== undefined) {
    if (missingSinceMs !== null) await noteMissing(means, instance, null)
  } else if (missingSinceMs === null) {
    await noteMissing(means, instance, askedAtMs)
    means.log.warn(
      { instance: instance.id },
      'the driver does not list an instance that runs; if it misses again, it ends',
    )
  } else {
    await endRunning(means, instance, 'lost', missingSinceMs)
    means.log.error(
      { instance: instance.id },
      'the driver has lost an instance; it ended, and costs nothing since it was missed',
    )
  }
}

/** Reports machines with names of ours that nobody is billed for, and has those deleted that belong to instances that are over. */
async function reportUnbilled({ database, clock, log }: WorkMeans, names: readonly string[]): Promise<void> {
  const ids = names.map(idOfDriverName).filter((id): id is string => id !== null && isUuid(id))
  for (let at = 0; at < ids.length; at += PAGE) {
    const some = ids.slice(at, at + PAGE)
    const known = await findKnown(database, some)
    const unbilled = some.filter((id) => !known.has(id))
    if (unbilled.length === 0) continue
    const removed = await removeAgain(database, unbilled, clock.now())
    const fields = {
      machines: unbilled.length,
      removed: removed.length,
      names: unbilled.slice(0, NAMES_MOST).map(driverNameOf),
    }
    log.error(
      fields,
      'machines run that nobody is billed for; those of ended instances are deleted, look at the others',
    )
  }
}
