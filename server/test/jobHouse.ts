/** The table of jobs over a database of its own, with as many processes as a test wants and a clock that it turns. */

import { z } from 'zod'
import { createLog } from '../src/infra/log.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { enqueue } from '../src/jobs/enqueue.ts'
import { type JobHandler, jobHandler, type TypedJobHandler } from '../src/jobs/handler.ts'
import type { JobKind } from '../src/jobs/job.ts'
import { createJobs } from '../src/jobs/runJobs.ts'
import type { Runner } from '../src/jobs/runner.ts'
import { type Clock, HOUR_MS, MINUTE_MS, SECOND_MS } from '../src/lib/time.ts'
import { TurnedClock } from './clock.ts'
import { freshDatabase } from './postgres.ts'

interface TestPayload {
  readonly n: number
}
export const TEST_KIND: JobKind<TestPayload> = { name: 'test', payload: z.strictObject({ n: z.int() }) }
export type Handle = TypedJobHandler<TestPayload>['handle']

/** Organizations, in the order of their ids. */
export const [A, B, C] = ['a', 'b', 'c'].map((letter) => `00000000-0000-4000-8000-00000000000${letter}`) as [
  string,
  string,
  string,
]

interface JobRow {
  readonly state: string
  readonly attempts: number
  readonly error: string | null
  readonly payload: unknown
  readonly due_at: Date
}

/** Returns the handler of jobs of the kind `test`: three attempts, four at once. */
export const testHandler = (handle: Handle, more: Partial<TypedJobHandler<TestPayload>> = {}): JobHandler =>
  jobHandler(TEST_KIND, {
    atOnce: 4,
    timeoutMs: HOUR_MS,
    retryMs: [MINUTE_MS, HOUR_MS],
    advice: 'look at it',
    handle,
    ...more,
  })

export interface JobHouse {
  readonly database: Database
  readonly databaseUrl: string
  clock: TurnedClock
  /** Returns the runner of another process for one handler; call its `run`, or start it. */
  runnerOf(handle: Handle, more?: Partial<TypedJobHandler<TestPayload>>): Runner
  /** The same, with these jobHandlers and perhaps another clock. */
  runner(jobHandlers: readonly JobHandler[], clock?: Clock): Runner
  /** Enqueues a job that is due now; whether it is new. */
  add(organizationId: string, n: number, more?: { dueAtMs?: number; uniqueKey?: string }): Promise<boolean>
  rows(): Promise<JobRow[]>
  states(): Promise<string[]>
  /** Lines of the log with these words. */
  logged(words: string): number
  /** Works until no job is due any more. */
  drain(...runners: readonly Runner[]): Promise<void>
  /** Until something outside the turned clock has happened. */
  until(happened: () => boolean | Promise<boolean>): Promise<void>
  /** Stops every process, and begins anew with an empty table. */
  clear(): Promise<void>
  close(): Promise<void>
}

export async function openJobHouse(): Promise<JobHouse> {
  const { database, url, drop } = await freshDatabase()
  let runners: Runner[] = []
  let logs: string[] = []
  const log = createLog('info', { write: (line) => void logs.push(line) })
  const rows = () =>
    database.query<JobRow>('select state, attempts, error, payload, due_at from jobs order by due_at, id')
  const house: JobHouse = {
    database,
    databaseUrl: url,
    clock: new TurnedClock(Date.UTC(2030, 0, 15, 12)),
    runnerOf: (handle, more = {}) => house.runner([testHandler(handle, more)]),
    runner(jobHandlers, clock = house.clock) {
      const runner = createJobs({ database, clock, random: systemRandom(), log, jobHandlers })
      runners.push(runner)
      return runner
    },
    add: (organizationId, n, more = {}) =>
      database.transaction((tx) =>
        enqueue(tx, TEST_KIND, { organizationId, payload: { n }, dueAtMs: house.clock.now(), ...more }),
      ),
    rows,
    states: async () => (await rows()).map(({ state }) => state),
    logged: (words) => logs.filter((line) => line.includes(words)).length,
    async drain(...several) {
      do await Promise.all(several.map((each) => each.run()))
      while ((await house.states()).includes('ready'))
    },
    async until(happened) {
      while (!(await happened())) await database.query('select 1')
    },
    async clear() {
      const closing = Promise.all(runners.map((each) => each.close()))
      await house.clock.turn(10 * SECOND_MS)
      await closing
      await database.query('delete from jobs')
      runners = []
      logs = []
      house.clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
    },
    close: drop,
  }
  return house
}

/** Work that goes on until it is released. */
export function held() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { promise, release: resolve }
}
