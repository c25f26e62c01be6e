/** The work on instances in the background. Any number of processes do this beside each other. */

import { createRunner, type InWork, type Runner, type Source } from '../jobs/runner.ts'
import { SECOND_MS } from '../lib/time.ts'
import { billInstance } from './bill.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import type { Instance } from './job/instance.ts'
import { renewDue, takeBillable, takeDueInstances } from './store.ts'
import { workOn } from './work.ts'

const POLL_MS = SECOND_MS

/** An instance that nobody has said anything of for so long is another's to take up. */
const LEASE_MS = 30 * SECOND_MS
const RENEW_MS = 10 * SECOND_MS

/** Instances that a process asks its driver about, and that it bills, at the same time. */
const ASKED_AT_ONCE = 16
/** Of these, instances of one organization: a driver that takes minutes to make some must not keep others from being deleted. */
const ASKED_OF_ONE = 12
const BILLED_AT_ONCE = 8

/** How long what is under way may take to end by itself when the process stops, and after it was aborted. */
const STOP_MS = 10 * SECOND_MS
const ABORTED_MS = 5 * SECOND_MS

interface InstanceWork {
  readonly instance: Instance
  readonly isBill: boolean
}

/** Makes the runner of instances, which is not started yet. */
export function createInstanceRunner(means: InstanceDependencies): Runner {
  const { database, clock, log, metrics } = means
  return createRunner<InstanceWork>({
    clock,
    log,
    name: 'instances',
    pollMs: POLL_MS,
    patienceMs: STOP_MS,
    abortedPatienceMs: ABORTED_MS,
    sources: [billSource(means), driverSource(means)],
    lease: {
      renewMs: RENEW_MS,
      // A bill is one transaction, which fails or ends long before its turn is over.
      renew: ({ instance, isBill }) =>
        isBill ? Promise.resolve(true) : renewDue(database, instance, clock.now() + LEASE_MS),
      async giveBack({ instance, isBill }) {
        if (!isBill) await renewDue(database, instance, clock.now())
      },
    },
    idOf: ({ instance }) => instance.id,
    metrics,
  })
}

function driverSource(means: InstanceDependencies): Source<InstanceWork> {
  return {
    kind: 'instance_driver',
    atOnce: ASKED_AT_ONCE,
    async claim({ room, inWork, begin }) {
      const what = { ...taking(means, room, inWork, false), mostOfOne: ASKED_OF_ONE }
      const taken = await takeDueInstances(means.database, what)
      for (const instance of taken) begin({ instance, isBill: false })
      return taken.length === room
    },
    async work({ instance }, signal) {
      await workOn(means, instance, signal)
      return 'succeeded'
    },
    makesDue: () => true,
  }
}

function billSource(means: InstanceDependencies): Source<InstanceWork> {
  return {
    kind: 'instance_bill',
    atOnce: BILLED_AT_ONCE,
    async claim({ room, inWork, begin }) {
      const taken = await takeBillable(means.database, taking(means, room, inWork, true))
      for (const instance of taken) begin({ instance, isBill: true })
      return taken.length === room
    },
    async work({ instance }) {
      await billInstance(means, instance)
      return 'succeeded'
    },
    makesDue: () => true,
  }
}

function taking(
  { clock }: InstanceDependencies,
  limit: number,
  inWork: ReadonlySet<InWork<InstanceWork>>,
  isBill: boolean,
) {
  const nowMs = clock.now()
  const own = [...inWork].filter(({ item }) => item.isBill === isBill).map(({ item }) => item.instance.id)
  return { nowMs, untilMs: nowMs + LEASE_MS, limit, own }
}
