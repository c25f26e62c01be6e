/** Jobs whose attempt fails, whose process dies, or that are slow. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { A, B, type Handle, held, type JobHouse, openJobHouse, testHandler } from '../../test/jobHouse.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { JOB_DONE, type JobResult } from './handler.ts'
import type { Runner } from './runner.ts'

let house: JobHouse
beforeAll(async () => {
  house = await openJobHouse()
})
afterEach(() => house.clear())
afterAll(() => house.close())

test('a job that fails is tried again by its schedule, a little early, and is dead after the last attempt', async () => {
  await house.add(A, 1)
  const only = house.runnerOf(async ({ attempts }) => ({ kind: 'failed', reason: `no luck, ${attempts}` }))
  for (const [index, delayMs] of [MINUTE_MS, HOUR_MS].entries()) {
    await only.run()
    const [row] = await house.rows()
    expect(row).toMatchObject({ state: 'waiting', attempts: index + 1, error: `no luck, ${index + 1}` })
    const inMs = (row?.due_at.getTime() ?? 0) - house.clock.now()
    expect(inMs).toBeGreaterThan(delayMs * 0.9 - 1)
    expect(inMs).toBeLessThanOrEqual(delayMs)
    await house.clock.turn(inMs - 1)
    await only.run()
    expect((await house.rows())[0]?.attempts).toBe(index + 1)
    await house.clock.turn(1)
  }
  await only.run()
  expect(await house.rows()).toMatchObject([{ state: 'dead', attempts: 3, error: 'no luck, 3', payload: { n: 1 } }])
  expect([house.logged('it is tried again'), house.logged('a job failed and is given up; look at it')]).toEqual([2, 1])
  await house.clock.turn(DAY_MS)
  await only.run()
  expect((await house.rows())[0]?.attempts).toBe(3)
})

test('a failure that another attempt would meet too is the last one', async () => {
  await house.add(A, 1)
  await house.runnerOf(async () => ({ kind: 'failed', reason: 'never', isFinal: true })).run()
  expect(await house.rows()).toMatchObject([{ state: 'dead', attempts: 1, error: 'never' }])
})

test('a job that is given up is emptied where its kind says so, and not before', async () => {
  await house.add(A, 1)
  const only = house.runnerOf(async () => ({ kind: 'failed', reason: 'no luck' }), {
    retryMs: [MINUTE_MS],
    isEmptiedWhenDead: true,
  })
  await only.run()
  expect(await house.rows()).toMatchObject([{ state: 'waiting', payload: { n: 1 } }])
  await house.clock.turn(MINUTE_MS)
  await only.run()
  expect(await house.rows()).toMatchObject([{ state: 'dead', payload: {} }])
  expect((await house.rows())[0]?.payload).toEqual({})
})

test('an error of a handler is a failed attempt, and none of its words are kept in the table', async () => {
  await house.add(A, 1)
  await house
    .runnerOf(async () => {
      throw new Error('password=canary')
    })
    .run()
  expect(await house.rows()).toMatchObject([{ state: 'waiting', error: 'it broke off by an unexpected error' }])
})

test('a payload of another version is a failed attempt, and reaches no handler', async () => {
  await house.add(A, 1)
  await house.database.query(`update jobs set payload = '{"n": "canary"}'`)
  await house.runnerOf(() => Promise.reject(new Error('it must not be called'))).run()
  expect(await house.rows()).toMatchObject([
    { state: 'waiting', error: 'its payload does not match the schema of this version: n' },
  ])
})

test('an attempt that takes too long has failed, and its handler is told so', async () => {
  await house.add(A, 1)
  let signal = new AbortController().signal
  let isBegun = false
  const only = house.runnerOf(
    (_job, given) => {
      signal = given
      isBegun = true
      return new Promise(() => {})
    },
    { timeoutMs: 5 * SECOND_MS },
  )
  const running = only.run()
  await house.until(() => isBegun)
  await house.clock.turn(5 * SECOND_MS)
  await running
  expect(await house.rows()).toMatchObject([{ state: 'waiting', attempts: 1, error: 'it took longer than 5 s' }])
  expect(signal.aborted).toBe(true)
})

test('a process that is killed in the middle of a job is followed by another once its lease is over', async () => {
  // The other process goes by the real clock, and this one begins where that is.
  house.clock = new TurnedClock(Date.now())
  await house.add(A, 1)
  const killed = spawn(process.execPath, [join(import.meta.dirname, '../../test/jobProcess.ts'), house.databaseUrl], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve) => killed.stdout.once('data', resolve))
  const exited = new Promise((resolve) => killed.once('exit', resolve))
  killed.kill('SIGKILL')
  await exited
  const attempts: number[] = []
  const other = house.runnerOf(async (job) => {
    attempts.push(job.attempts)
    return JOB_DONE
  })
  await other.run()
  expect([attempts, await house.states()]).toEqual([[], ['running']])
  await house.clock.turn(2 * MINUTE_MS)
  await other.run()
  expect([attempts, await house.states()]).toEqual([[2], ['done']])
})

test('a job that ends every process that works on it is dead after as many attempts as any other', async () => {
  await house.add(A, 1)
  // As if three processes had taken it and died.
  await house.database.query(`update jobs set state = 'running', attempts = 3, lease = gen_random_uuid()`)
  let calls = 0
  const only = house.runnerOf(async () => {
    calls += 1
    return JOB_DONE
  })
  await only.run()
  expect(calls).toBe(0)
  expect(await house.rows()).toMatchObject([
    { state: 'dead', attempts: 4, error: 'each process that worked on it ended before it did' },
  ])
})

/** A process whose clock stands still, so that it renews nothing and notices nothing. */
function sleepyRunner(handle: Handle): Runner {
  return house.runner([testHandler(handle)], {
    now: () => house.clock.now(),
    monotonicMs: () => 0,
    after: () => () => {},
  })
}

test('the result of a slow process counts as long as no other has taken the job, and it takes its own no second time', async () => {
  await house.add(A, 1)
  const wait = held()
  const calls: string[] = []
  const slow = sleepyRunner(async ({ organizationId }) => {
    calls.push(organizationId)
    await wait.promise
    return JOB_DONE
  })
  const running = slow.run()
  await house.until(() => calls.length === 1)
  await house.clock.turn(2 * MINUTE_MS)
  // Another process sees that the lease is over, and has no handler for the job.
  await house.runner([]).run()
  expect(await house.states()).toEqual(['ready'])
  // A look of the slow one comes past it and finds another job.
  await house.add(B, 2)
  const again = slow.run()
  await house.until(() => calls.length > 1)
  expect(calls).toEqual([A, B])
  wait.release()
  await Promise.all([running, again])
  expect(await house.rows()).toMatchObject([1, 2].map(() => ({ state: 'done', attempts: 1 })))
})

test.each<[string, JobResult]>([
  ['success', JOB_DONE],
  ['failure', { kind: 'failed', reason: 'too late to say so' }],
  ['last failure', { kind: 'failed', reason: 'too late to say so', isFinal: true }],
])('a late %s changes nothing once another process works on the job', async (_name, result) => {
  await house.add(A, 1)
  const [late, other] = [held(), held()]
  let begun = 0
  const running = sleepyRunner(async () => {
    begun += 1
    await late.promise
    return result
  }).run()
  await house.until(() => begun === 1)
  await house.clock.turn(2 * MINUTE_MS)
  const next = house
    .runnerOf(async () => {
      begun += 1
      await other.promise
      return JOB_DONE
    })
    .run()
  await house.until(() => begun === 2)
  late.release()
  await running
  expect(await house.rows()).toMatchObject([{ state: 'running', attempts: 2, error: null }])
  other.release()
  await next
  expect(await house.rows()).toMatchObject([{ state: 'done', attempts: 2, error: null }])
})

test('a stop gives back what is in work: it is no attempt, and another process has it at once', async () => {
  await house.add(A, 1)
  let isBegun = false
  const stopped = house.runnerOf(
    (_job, signal) =>
      new Promise((_, reject) => {
        isBegun = true
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  )
  const running = stopped.run()
  await house.until(() => isBegun)
  const closing = stopped.close()
  await house.clock.turn(5 * SECOND_MS)
  await Promise.all([running, closing])
  expect(await house.rows()).toMatchObject([{ state: 'waiting', attempts: 0 }])
  await house.runnerOf(async () => JOB_DONE).run()
  expect(await house.rows()).toMatchObject([{ state: 'done', attempts: 1 }])
})
