import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { DAY_MS, MINUTE_MS } from '../lib/time.ts'
import {
  doOverlap,
  isPeak,
  MINUTES_PER_DAY,
  minuteOfDay,
  type PeakWindow,
  parseTimeOfDay,
  printTimeOfDay,
} from './peak.ts'

const MINUTES = Array.from({ length: MINUTES_PER_DAY }, (_, minute) => minute)
const window: fc.Arbitrary<PeakWindow> = fc
  .record({
    startMinute: fc.nat({ max: MINUTES_PER_DAY - 1 }),
    endMinute: fc.integer({ min: 1, max: MINUTES_PER_DAY }),
  })
  .filter(({ startMinute, endMinute }) => startMinute !== endMinute)
const at = (text: string) => {
  const minute = parseTimeOfDay(text)
  if (minute === null) throw new Error(text)
  return minute
}
const windowOf = (start: string, end: string): PeakWindow => ({ startMinute: at(start), endMinute: at(end) })

/** Walks the day from the window's start to its end, minute by minute, over midnight where it must. */
function walked({ startMinute, endMinute }: PeakWindow): Set<number> {
  const minutes = new Set<number>()
  let minute = startMinute
  do {
    minutes.add(minute)
    minute = (minute + 1) % MINUTES_PER_DAY
  } while (minute !== endMinute % MINUTES_PER_DAY)
  return minutes
}

test('a minute is peak exactly where a walk from start to end passes it', () => {
  fc.assert(
    fc.property(fc.array(window, { maxLength: 4 }), (windows) => {
      const within = windows.map(walked)
      const wrong = MINUTES.filter((minute) => isPeak(windows, minute) !== within.some((set) => set.has(minute)))
      expect(wrong).toEqual([])
    }),
  )
})

test('two windows overlap exactly where they share a minute, whichever comes first', () => {
  fc.assert(
    fc.property(window, window, (one, other) => {
      const shared = walked(one).intersection(walked(other)).size > 0
      expect([doOverlap(one, other), doOverlap(other, one)]).toEqual([shared, shared])
      expect(doOverlap(one, one)).toBe(true)
    }),
    { numRuns: 500 },
  )
})

const EDGES: readonly (readonly [start: string, end: string, inside: string[], outside: string[]])[] = [
  ['08:00', '20:00', ['08:00', '19:59'], ['07:59', '20:00', '00:00']],
  ['20:00', '24:00', ['20:00', '23:59'], ['19:59', '00:00']],
  ['22:30', '06:00', ['22:30', '23:59', '00:00', '05:59'], ['22:29', '06:00', '12:00']],
  ['00:00', '24:00', ['00:00', '12:00', '23:59'], []],
  ['23:59', '00:01', ['23:59', '00:00'], ['23:58', '00:01']],
]
for (const [start, end, inside, outside] of EDGES) {
  test(`the window from ${start} to ${end} takes its first minute in and leaves its last out`, () => {
    const windows = [windowOf(start, end)]
    expect(inside.map((time) => isPeak(windows, at(time)))).toEqual(inside.map(() => true))
    expect(outside.map((time) => isPeak(windows, at(time)))).toEqual(outside.map(() => false))
  })
}

test('windows that touch do not overlap', () => {
  for (const [one, other] of [
    [windowOf('08:00', '12:00'), windowOf('12:00', '13:00')],
    [windowOf('20:00', '24:00'), windowOf('00:00', '06:00')],
    [windowOf('22:00', '06:00'), windowOf('06:00', '22:00')],
  ] as const) {
    expect(doOverlap(one, other)).toBe(false)
  }
})

test('every instant has the minute that its UTC timestamp shows', () => {
  fc.assert(
    fc.property(fc.integer({ min: -10 * DAY_MS, max: Date.UTC(2100, 0) }), (instantMs) => {
      expect(printTimeOfDay(minuteOfDay(instantMs))).toBe(new Date(instantMs).toISOString().slice(11, 16))
    }),
  )
  expect(minuteOfDay(DAY_MS - 1)).toBe(MINUTES_PER_DAY - 1)
  expect(minuteOfDay(8 * 60 * MINUTE_MS - 1)).toBe(at('07:59'))
})

test('a time of day is read as it is printed, and in no other spelling', () => {
  for (let minute = 0; minute <= MINUTES_PER_DAY; minute += 1) expect(at(printTimeOfDay(minute))).toBe(minute)
  for (const text of [
    '',
    '8:00',
    '08:0',
    '0800',
    '08:60',
    '24:01',
    '25:00',
    ' 08:00',
    '08:00Z',
    '08:00:00',
    '-1:00',
    '08:00\n',
  ])
    expect(parseTimeOfDay(text)).toBeNull()
  fc.assert(
    fc.property(fc.string(), (text) => {
      const minute = parseTimeOfDay(text)
      expect(minute === null || printTimeOfDay(minute) === text).toBe(true)
    }),
  )
})
