import { beforeEach, describe, expect, test } from 'bun:test'
import { SettableClock } from '../../test/clock.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { type DatabaseClock, openDatabaseClock } from './databaseClock.ts'

const START_MS = Date.UTC(2030, 0, 15, 12)

/** The machine's clock: its date is never asked for. */
let machine: SettableClock
/** The database's clock is so far ahead of the time that has really passed. */
let aheadMs: number
/** Milliseconds from the question to the database, and from there back. */
let way: { thereMs: number; backMs: number }
let isAway: boolean
let asked: number[]
let logs: string[]

const trueMs = () => START_MS + machine.monotonicMs()
const pass = (milliseconds: number) => new Promise<void>((resolve) => machine.after(milliseconds, resolve))

async function read(): Promise<number> {
  asked.push(machine.monotonicMs())
  if (isAway) throw new Error('the connection was closed')
  if (way.thereMs > 0) await pass(way.thereMs)
  const readMs = trueMs() + aheadMs
  if (way.backMs > 0) await pass(way.backMs)
  return readMs
}

const say = (_: unknown, message: string) => void logs.push(message)

function open(): Promise<DatabaseClock> {
  return openDatabaseClock({ read, timers: machine, log: { info: say, warn: say } })
}

beforeEach(() => {
  machine = new SettableClock(Date.UTC(1999, 0, 1))
  aheadMs = 0
  way = { thereMs: 0, backMs: 0 }
  isAway = false
  asked = []
  logs = []
})

describe('the time of a process', () => {
  test('is the database’s, whatever the date of its own machine is', async () => {
    const clock = await open()
    for (const jumpMs of [-25 * HOUR_MS, -2 * HOUR_MS, 5 * SECOND_MS, 20 * HOUR_MS, 40 * DAY_MS]) {
      machine.set(machine.now() + jumpMs)
      expect(clock.now()).toBe(trueMs())
      await machine.turn(20 * SECOND_MS)
      expect(clock.now()).toBe(trueMs())
      expect(clock.trouble()).toBeNull()
    }
    expect(logs).toEqual([])
    clock.close()
    expect(machine.pending).toBe(0)
  })

  test('is that of the middle of the round trip', async () => {
    way = { thereMs: 300, backMs: 300 }
    const opening = open()
    await machine.turn(600)
    const clock = await opening
    expect(clock.now()).toBe(trueMs())
  })

  test('is asked for at the start, and then at least every 10 s', async () => {
    way = { thereMs: 400, backMs: 500 }
    const opening = open()
    await machine.turn(SECOND_MS)
    const clock = await opening
    await machine.turn(HOUR_MS)
    const waits = asked.slice(1).map((atMs, index) => atMs - (asked[index] ?? 0))
    expect(Math.max(...waits)).toBeLessThanOrEqual(10 * SECOND_MS)
    clock.close()
  })

  test('goes on without the database, and follows no answer that took longer than a second', async () => {
    const clock = await open()
    isAway = true
    await machine.turn(MINUTE_MS)
    expect(clock.now()).toBe(trueMs())
    isAway = false
    way = { thereMs: 0, backMs: SECOND_MS + 1 }
    aheadMs = DAY_MS
    await machine.turn(10 * MINUTE_MS)
    expect(clock.now()).toBe(trueMs())
    expect({ trouble: clock.trouble(), logs }).toEqual({ trouble: null, logs: [] })
    clock.close()
  })

  test('can’t begin with such an answer: the start asks again, and gives up after 30', async () => {
    way = { thereMs: SECOND_MS, backMs: SECOND_MS }
    const opening = open()
    await machine.turn(3 * SECOND_MS)
    way = { thereMs: 0, backMs: 0 }
    await machine.turn(2 * SECOND_MS)
    const clock = await opening
    expect(clock.now()).toBe(trueMs())
    clock.close()
    way = { thereMs: SECOND_MS, backMs: SECOND_MS }
    const failing = open().catch((error: Error) => error.message)
    await machine.turn(2 * MINUTE_MS)
    expect(await failing).toContain('look at the load of the database')
  })

  test('is not to be had from a database that is away at the start', async () => {
    isAway = true
    expect(open()).rejects.toThrow('the connection was closed')
  })

  test('follows small steps at once, and is not moved by the uncertainty of an answer', async () => {
    const clock = await open()
    aheadMs = 1_900
    await machine.turn(5 * SECOND_MS)
    expect(clock.now()).toBe(trueMs() + 1_900)
    aheadMs = 0
    await machine.turn(5 * SECOND_MS)
    expect(clock.now()).toBe(trueMs())
    way = { thereMs: 0, backMs: 800 }
    await machine.turn(MINUTE_MS)
    expect(clock.now()).toBe(trueMs())
    clock.close()
  })

  test('never goes back while nothing is corrected', async () => {
    const clock = await open()
    let [lastMs, rounds] = [clock.now(), 0]
    way = { thereMs: 1, backMs: 2 }
    while (rounds < 2_000) {
      await machine.turn(7)
      expect(clock.now()).toBeGreaterThanOrEqual(lastMs)
      lastMs = clock.now()
      rounds += 1
    }
    clock.close()
  })
})

describe('a database’s clock that jumps', () => {
  const JUMPS_MS = [-25 * HOUR_MS, -2 * HOUR_MS, 5 * SECOND_MS, 20 * HOUR_MS, 40 * DAY_MS]

  test('for three seconds is never followed, and doubted only so long', async () => {
    for (const jumpMs of JUMPS_MS) {
      logs = []
      const clock = await open()
      // Just before the next question, so that it is seen.
      await machine.turn(4 * SECOND_MS)
      aheadMs = jumpMs
      await machine.turn(2 * SECOND_MS)
      expect(clock.trouble()).toContain(`${Math.abs(jumpMs / SECOND_MS).toFixed(1)} s`)
      expect(clock.now()).toBe(trueMs())
      await machine.turn(SECOND_MS)
      aheadMs = 0
      await machine.turn(SECOND_MS)
      expect(clock.trouble()).toBeNull()
      expect(clock.now()).toBe(trueMs())
      expect(logs).toEqual([
        expect.stringContaining('no call is admitted until'),
        expect.stringContaining('calls are admitted'),
      ])
      clock.close()
    }
  })

  test('and stays is followed once it has held for a minute, and not sooner', async () => {
    for (const jumpMs of JUMPS_MS) {
      logs = []
      aheadMs = 0
      const clock = await open()
      aheadMs = jumpMs
      await machine.turn(5 * SECOND_MS)
      await machine.turn(MINUTE_MS - 1)
      expect(clock.trouble()).not.toBeNull()
      expect(clock.now()).toBe(trueMs())
      await machine.turn(SECOND_MS)
      expect(clock.trouble()).toBeNull()
      expect(clock.now()).toBe(trueMs() + jumpMs)
      expect(logs).toEqual([
        expect.stringContaining('no call is admitted until'),
        expect.stringContaining('a minute after it was set'),
      ])
      clock.close()
    }
  })

  test('and was not heard of for over ten seconds begins another minute', async () => {
    const clock = await open()
    aheadMs = 20 * HOUR_MS
    await machine.turn(50 * SECOND_MS)
    isAway = true
    await machine.turn(HOUR_MS)
    isAway = false
    await machine.turn(SECOND_MS)
    expect(clock.now()).toBe(trueMs())
    await machine.turn(MINUTE_MS)
    expect(clock.now()).toBe(trueMs() + 20 * HOUR_MS)
    clock.close()
  })

  test('again within the minute begins another minute', async () => {
    const clock = await open()
    aheadMs = 20 * HOUR_MS
    await machine.turn(50 * SECOND_MS)
    aheadMs = -20 * HOUR_MS
    await machine.turn(50 * SECOND_MS)
    expect(clock.now()).toBe(trueMs())
    expect(clock.trouble()).toContain('72000.0 s behind')
    await machine.turn(MINUTE_MS)
    expect(clock.now()).toBe(trueMs() - 20 * HOUR_MS)
    clock.close()
  })
})
