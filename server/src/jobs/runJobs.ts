/** The runner of the jobs of the table. Any number of processes run one beside each other. */

import type { Database } from '../infra/postgres/database.ts'
import { nextAttemptMs } from '../lib/backoff.ts'
import { LOWEST_UUID, type RandomBytes, randomFraction, uuidV7 } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS, within } from '../lib/time.ts'
import type { JobOutcome } from './carryOut.ts'
import type { JobHandler, JobResult } from './handler.ts'
import type { ClaimedJob } from './job.ts'
import {
  ABORTED_PATIENCE_MS,
  createRunner,
  type Runner,
  type RunnerMetrics,
  type Source,
  STOP_PATIENCE_MS,
} from './runner.ts'
import { claimJobs, finishJob, giveJobBack, makeReady, postponeJob, renewJob, toDeadJob } from './store.ts'

/** A job that becomes due is taken up within this time, where nobody wakes the runner. */
const POLL_MS = SECOND_MS

/** A process that has not said anything of a job for so long is dead, or as good as that: another takes the job. */
const LEASE_MS = MINUTE_MS
const RENEW_MS = 20 * SECOND_MS

/** Jobs that one statement makes ready. */
const READY_AT_ONCE = 1_000

/** Of the jobs of a kind in a process, those of one organization. */
const OF_ONE = 1 / 2

/** Up to this part of a delay is taken off, so that jobs that failed together are not tried again together. */
const JITTER = 0.1

export interface JobsDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  /** Kinds without one stay in the table for processes that have it. */
  readonly jobHandlers: readonly JobHandler[]
  readonly metrics?: RunnerMetrics
}

interface JobWork {
  readonly job: ClaimedJob
}

/** Makes the runner of the table's jobs, which is not started yet. */
export function createJobs(dependencies: JobsDependencies): Runner {
  const { database, clock, log, jobHandlers, metrics } = dependencies
  return createRunner<JobWork>({
    clock,
    log,
    name: 'jobs',
    pollMs: POLL_MS,
    patienceMs: STOP_PATIENCE_MS,
    abortedPatienceMs: ABORTED_PATIENCE_MS,
    async prepare() {
      const made = await makeReady(database, clock.now(), READY_AT_ONCE)
      return made === READY_AT_ONCE ? 'more' : 'ready'
    },
    sources: jobHandlers.map((handler) => sourceOf(dependencies, handler)),
    lease: {
      renewMs: RENEW_MS,
      renew: ({ job }) => renewJob(database, job, clock.now() + LEASE_MS),
      giveBack: ({ job }) => giveJobBack(database, job, clock.now()),
    },
    idOf: ({ job }) => job.id,
    metrics,
  })
}

/** Jobs of one kind, by turns of organizations. */
function sourceOf(dependencies: JobsDependencies, handler: JobHandler): Source<JobWork> {
  const { database, clock, random } = dependencies
  const { kind, atOnce } = handler
  const ofOne = Math.max(Math.floor(atOnce * OF_ONE), 1)
  /** The organization that had the last turn in this process. */
  let last = LOWEST_UUID
  return {
    kind,
    atOnce,
    // The next job of its organization may have waited for it.
    makesDue: () => true,
    async claim({ room, inWork, begin }) {
      let left = room
      // From the organization after the last one, and once more from the first one.
      for (const afterOrganizationId of last === LOWEST_UUID ? [last] : [last, LOWEST_UUID]) {
        if (left === 0) break
        const nowMs = clock.now()
        const own = [...inWork].filter((work) => work.kind === kind).map(({ item }) => item.job)
        const counts = new Map<string, number>()
        for (const { organizationId } of own) counts.set(organizationId, (counts.get(organizationId) ?? 0) + 1)
        const jobs = await claimJobs(database, {
          kind,
          afterOrganizationId,
          without: [...counts.keys()].filter((id) => (counts.get(id) ?? 0) >= ofOne),
          own: own.map(({ id }) => id),
          limit: left,
          lease: uuidV7(nowMs, random),
          untilMs: nowMs + LEASE_MS,
        })
        left -= jobs.length
        last = jobs.reduce((most, { organizationId }) => (organizationId > most ? organizationId : most), LOWEST_UUID)
        for (const job of jobs) begin({ job })
      }
      return left < room
    },
    async work({ job }, signal) {
      const result = await attempt(dependencies, handler, job, signal)
      return write(dependencies, handler, job, result)
    },
  }
}

/** Lets the handler try. Rejects when `signal` ended that. */
async function attempt(
  { clock, log }: JobsDependencies,
  { kind, timeoutMs, retryMs, handle }: JobHandler,
  job: ClaimedJob,
  signal: AbortSignal,
): Promise<JobResult> {
  // Every attempt was taken up and none has ended: the job may be what ends processes.
  if (job.attempts > retryMs.length + 1) return failed('each process that worked on it ended before it did')
  const late = failed(`it took longer than ${timeoutMs / SECOND_MS} s`)
  try {
    const result = await within(clock, timeoutMs, handle(job, signal), late)
    if (result.kind === 'failed') signal.throwIfAborted()
    return result
  } catch (error) {
    if (signal.aborted) throw error
    log.warn({ err: error, kind, id: job.id }, 'a job broke off by an error that its handler does not know')
    return failed('it broke off by an unexpected error')
  }
}

function failed(reason: string): JobResult {
  return { kind: 'failed', reason }
}

/** Writes down what came of an attempt; a job that another process has taken over is left to that one. */
async function write(
  { database, clock, random, log }: JobsDependencies,
  { kind, retryMs, advice, isEmptiedWhenDead }: JobHandler,
  job: ClaimedJob,
  result: JobResult,
): Promise<JobOutcome> {
  const nowMs = clock.now()
  if (result.kind === 'done') {
    await finishJob(database, job, nowMs)
    return 'succeeded'
  }
  const { id, organizationId, attempts } = job
  const { reason: error, isFinal = false } = result
  const fields = { kind, id, organizationId, attempts, reason: error }
  const dueAtMs = isFinal ? null : nextAttemptMs(retryMs, attempts, nowMs, -JITTER * randomFraction(random))
  if (dueAtMs !== null) {
    if (await postponeJob(database, job, { error, dueAtMs })) log.warn(fields, 'a job failed; it is tried again')
    return 'failed'
  }
  if (await toDeadJob(database, job, { error, nowMs, isEmptied: isEmptiedWhenDead === true }))
    log.error(fields, `a job failed and is given up; ${advice}`)
  return 'dead'
}
