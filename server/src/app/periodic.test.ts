import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import type { Log } from '../lib/log.ts'
import { HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import { runPeriodically } from './periodic.ts'

const warned: object[] = []
const log = { warn: (fields: object) => void warned.push(fields) } as unknown as Log

test('each task runs after its period, and then after each', async () => {
  const clock = new TurnedClock()
  const runs: string[] = []
  const task = (name: string, everyMs: number) => ({ name, everyMs, run: async () => void runs.push(name) })
  const stop = runPeriodically([task('often', MINUTE_MS), task('seldom', 2 * MINUTE_MS)], clock, log)
  expect(runs).toEqual([])
  for (let minute = 0; minute < 4; minute += 1) await clock.turn(MINUTE_MS)
  expect(runs.filter((name) => name === 'often')).toHaveLength(4)
  expect(runs.filter((name) => name === 'seldom')).toHaveLength(2)
  stop()
  expect(clock.pending).toBe(0)
})

test('a slow task is not begun again before it has ended, and keeps no other waiting', async () => {
  const clock = new TurnedClock()
  let begun = 0
  let others = 0
  let finish = () => {}
  const slow = {
    name: 'slow',
    everyMs: MINUTE_MS,
    run: () => {
      begun += 1
      return new Promise<void>((resolve) => (finish = resolve))
    },
  }
  const stop = runPeriodically(
    [slow, { name: 'other', everyMs: MINUTE_MS, run: async () => (others += 1) }],
    clock,
    log,
  )
  for (let minute = 0; minute < 3; minute += 1) await clock.turn(MINUTE_MS)
  expect([begun, others]).toEqual([1, 3])
  finish()
  await clock.turn(0)
  await clock.turn(MINUTE_MS)
  expect(begun).toBe(2)
  stop()
})

test('a failure is logged by the name of the task, which runs again; after the stop nothing is begun or logged', async () => {
  const clock = new TurnedClock()
  let runs = 0
  let sawStop = false
  let fail = (_error: Error) => {}
  const task = {
    name: 'sweep',
    everyMs: HOUR_MS,
    run: (isStopping: () => boolean) => {
      runs += 1
      if (runs < 3) return Promise.reject(new Error('away'))
      return new Promise((_, reject) => {
        fail = (error) => {
          sawStop = isStopping()
          reject(error)
        }
      })
    },
  }
  const stop = runPeriodically([task], clock, log)
  for (let hour = 0; hour < 3; hour += 1) await clock.turn(HOUR_MS)
  expect(warned).toEqual([
    { err: new Error('away'), task: 'sweep' },
    { err: new Error('away'), task: 'sweep' },
  ])
  stop()
  fail(new Error('ended'))
  await clock.turn(HOUR_MS)
  expect([runs, sawStop, warned.length, clock.pending]).toEqual([3, true, 2, 0])
})
