import { DAY_MS, MINUTE_MS } from '../lib/time.ts'

/** The day by the clock of UTC: which of its minutes are peak. A day has 1440 minutes, always: UTC has no summer time. */

export const MINUTES_PER_DAY = 1_440

/**
 * A part of every UTC day. A window whose end is before its start wraps midnight. Never empty: `start` and `end` differ,
 * and a window up to midnight ends at 1440, never at 0.
 */
export interface PeakWindow {
  /** Minute of the day, 0 to 1439, inclusive. */
  readonly startMinute: number
  /** Minute of the day, 1 to 1440, exclusive. */
  readonly endMinute: number
}

/** The minute of its UTC day that an instant is in, 0 to 1439. */
export function minuteOfDay(instantMs: number): number {
  const sinceMidnightMs = ((instantMs % DAY_MS) + DAY_MS) % DAY_MS
  return Math.floor(sinceMidnightMs / MINUTE_MS)
}

/** Returns whether a minute of the day is within one of the windows. */
export function isPeak(windows: readonly PeakWindow[], minute: number): boolean {
  return windows.some((window) => spansOf(window).some(([from, to]) => from <= minute && minute < to))
}

/** Returns whether two windows share a minute. */
export function doOverlap(one: PeakWindow, other: PeakWindow): boolean {
  return spansOf(one).some(([from, to]) =>
    spansOf(other).some(([otherFrom, otherTo]) => from < otherTo && otherFrom < to),
  )
}

/** A window without its wrap: one or two spans of minutes, each from its first to before its last. */
function spansOf({ startMinute, endMinute }: PeakWindow): readonly (readonly [number, number])[] {
  if (startMinute < endMinute) return [[startMinute, endMinute]]
  return [
    [startMinute, MINUTES_PER_DAY],
    [0, endMinute],
  ]
}

const TIME_OF_DAY = /^(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)$/

/** Reads `HH:MM`, `00:00` to `24:00`, as a minute of the day, 0 to 1440. Null for anything else. */
export function parseTimeOfDay(text: string): number | null {
  const match = TIME_OF_DAY.exec(text)
  if (match === null) return null
  const [, hours, minutes] = match
  return hours === undefined ? MINUTES_PER_DAY : Number(hours) * 60 + Number(minutes)
}

/** A minute of the day, 0 to 1440, as `HH:MM`. */
export function printTimeOfDay(minute: number): string {
  const two = (value: number) => String(value).padStart(2, '0')
  return `${two(Math.floor(minute / 60))}:${two(minute % 60)}`
}
