/** How jobs come into the table, who takes them up when, and how long they are kept. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { z } from 'zod'
import { A, B, C, type Handle, held, type JobHouse, openJobHouse, TEST_KIND, testHandler } from '../../test/jobHouse.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import { enqueue } from './enqueue.ts'
import { JOB_DONE, type JobHandler } from './handler.ts'
import type { JobKind } from './job.ts'
import { readDueJobs } from './store.ts'
import { sweepJobs } from './sweep.ts'

let house: JobHouse
beforeAll(async () => {
  house = await openJobHouse()
})
afterEach(() => house.clear())
afterAll(() => house.close())

test('a job is there with the commit of its transaction, and not without', async () => {
  const done: number[] = []
  const rolledBack = house.database.transaction(async (tx) => {
    await enqueue(tx, TEST_KIND, { organizationId: A, payload: { n: 1 }, dueAtMs: house.clock.now() })
    throw new Error('what it follows from did not happen')
  })
  expect(rolledBack).rejects.toThrow('did not happen')
  await rolledBack.catch(() => {})
  await house.add(A, 2)
  await house
    .runnerOf(async ({ payload, organizationId, attempts }) => {
      expect([organizationId, attempts]).toEqual([A, 1])
      done.push(payload.n)
      return JOB_DONE
    })
    .run()
  expect(done).toEqual([2])
  // Emptied: what it was about is nobody's business any more.
  expect(await house.rows()).toMatchObject([{ state: 'done', attempts: 1, payload: {} }])
})

test('a job is not done before it is due', async () => {
  const done: number[] = []
  const only = house.runnerOf(async ({ payload }) => {
    done.push(payload.n)
    return JOB_DONE
  })
  await house.add(A, 1, { dueAtMs: house.clock.now() + HOUR_MS })
  await house.clock.turn(HOUR_MS - 1)
  await only.run()
  expect(done).toEqual([])
  await house.clock.turn(1)
  await only.run()
  expect(done).toEqual([1])
})

test('a unique key is one job of its organization, as long as that is kept', async () => {
  expect(await house.add(A, 1, { uniqueKey: 'x' })).toBe(true)
  expect(await house.add(A, 2, { uniqueKey: 'x' })).toBe(false)
  expect(await house.add(B, 3, { uniqueKey: 'x' })).toBe(true)
  const done: number[] = []
  const only = house.runnerOf(async ({ payload }) => {
    done.push(payload.n)
    return JOB_DONE
  })
  await only.run()
  expect(await house.add(A, 4, { uniqueKey: 'x' })).toBe(false)
  await house.clock.turn(8 * DAY_MS)
  await sweepJobs({ database: house.database, clock: house.clock, jobHandlers: [] }, () => false)
  expect(await house.add(A, 5, { uniqueKey: 'x' })).toBe(true)
  await only.run()
  expect(done).toEqual([1, 3, 5])
})

test('a payload that does not match its schema, or is too large, is refused when it is enqueued', async () => {
  const large: JobKind<string> = { name: 'large', payload: z.string() }
  const job = { organizationId: A, dueAtMs: 0 }
  const wrong = () => house.database.transaction(async (tx) => enqueue(tx, TEST_KIND, { ...job, payload: { n: 0.5 } }))
  expect(wrong()).rejects.toThrow()
  const tooLarge = () =>
    house.database.transaction(async (tx) => enqueue(tx, large, { ...job, payload: 'x'.repeat(70_000) }))
  expect(tooLarge()).rejects.toThrow('too many')
  expect(await house.rows()).toEqual([])
})

test('organizations take turns, however many jobs one of them has', async () => {
  for (let n = 0; n < 30; n += 1) await house.add(A, n)
  for (const other of [B, C]) for (let n = 0; n < 3; n += 1) await house.add(other, n)
  const order: string[] = []
  const only = house.runnerOf(
    async ({ organizationId }) => {
      order.push(organizationId.slice(-1))
      return JOB_DONE
    },
    { atOnce: 1 },
  )
  await house.drain(only)
  expect(order.slice(0, 9).toSorted().join('')).toBe('aaabbbccc')
  expect(order).toHaveLength(36)
})

test('an organization whose jobs never end keeps no other waiting', async () => {
  for (let n = 0; n < 20; n += 1) await house.add(A, n)
  const wait = held()
  let stuck = 0
  const done: string[] = []
  const only = house.runnerOf(async ({ organizationId }) => {
    if (organizationId === A) {
      stuck += 1
      await wait.promise
    }
    done.push(organizationId)
    return JOB_DONE
  })
  only.start()
  await house.until(() => stuck === 2)
  for (let n = 0; n < 3; n += 1) await house.add(B, n)
  only.wake()
  await house.until(() => done.length === 3)
  expect([done, stuck]).toEqual([[B, B, B], 2])
  wait.release()
  // Jobs that waited for their own organization go on at once, not by the next poll.
  await house.until(() => done.length === 23)
})

test('many processes do each job once', async () => {
  const organizations = Array.from({ length: 7 }, () => crypto.randomUUID())
  for (let n = 0; n < 140; n += 1) await house.add(organizations[n % 7] ?? A, n)
  const done: number[] = []
  const handle: Handle = async ({ payload }) => {
    await house.database.query('select 1')
    done.push(payload.n)
    return JOB_DONE
  }
  const several = [1, 2, 3].map(() => house.runnerOf(handle))
  await house.drain(...several)
  expect(done.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 140 }, (_, n) => n))
})

test('a kind without a handler waits for a process that has one, and is given up after 30 days', async () => {
  await house.add(A, 1)
  const other: JobHandler = { ...testHandler(async () => JOB_DONE), kind: 'other' }
  const runner = house.runner([other])
  await runner.run()
  const sweep = () => sweepJobs({ database: house.database, clock: house.clock, jobHandlers: [other] }, () => false)
  await sweep()
  expect(await house.states()).toEqual(['ready'])
  await house.clock.turn(31 * DAY_MS)
  await sweepJobs(
    { database: house.database, clock: house.clock, jobHandlers: [testHandler(async () => JOB_DONE)] },
    () => false,
  )
  expect(await house.states()).toEqual(['ready'])
  await sweep()
  expect(await house.rows()).toMatchObject([{ state: 'dead', error: 'no process had a handler for its kind' }])
})

test('jobs that are done are kept for 7 days, dead ones for 30, and others for ever', async () => {
  await house.add(A, 1)
  await house.add(B, 2)
  await house.add(C, 3, { dueAtMs: house.clock.now() + 365 * DAY_MS })
  await house
    .runnerOf(async ({ payload }) => (payload.n === 1 ? JOB_DONE : { kind: 'failed', reason: 'never', isFinal: true }))
    .run()
  const sweep = () => sweepJobs({ database: house.database, clock: house.clock, jobHandlers: [] }, () => false)
  const kept: string[][] = []
  for (const days of [7, 1, 22, 1]) {
    await house.clock.turn(days * DAY_MS)
    await sweep()
    kept.push((await house.states()).toSorted())
  }
  expect(kept).toEqual([['dead', 'done', 'waiting'], ['dead', 'waiting'], ['dead', 'waiting'], ['waiting']])
})

test('due jobs are counted by kind, with the time since when', async () => {
  const dueAtMs = house.clock.now() - MINUTE_MS
  await house.add(A, 1, { dueAtMs })
  await house.add(B, 2)
  await house.add(C, 3, { dueAtMs: house.clock.now() + MINUTE_MS })
  expect(await readDueJobs(house.database, house.clock.now())).toEqual([{ kind: 'test', due: 2, oldestAtMs: dueAtMs }])
})
