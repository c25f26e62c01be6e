import { z } from 'zod'
import type { Path, Report } from './document.ts'
import { doOverlap, MINUTES_PER_DAY, type PeakWindow, parseTimeOfDay } from './peak.ts'
import { closed } from './shape.ts'

/** One an hour; more are a slip, and each edge is a change of the listings. */
const WINDOWS_MAX = 24

export const PeakWindowsShape = z.array(closed({ start: z.string(), end: z.string() })).max(WINDOWS_MAX)

/** Reads `peak_windows_utc`; `path` is its own. Null where something was reported. */
export function loadPeakWindows(
  given: z.infer<typeof PeakWindowsShape>,
  path: Path,
  report: Report,
): readonly PeakWindow[] | null {
  if (given.length === 0) {
    report(path, 'must hold at least one window, such as \'- { start: "08:00", end: "20:00" }\'')
    return null
  }
  const windows: PeakWindow[] = []
  let sound = true
  for (const [index, { start, end }] of given.entries()) {
    const window = readWindow(start, end, [...path, index], report)
    if (window === null) {
      sound = false
      continue
    }
    if (windows.some((other) => doOverlap(other, window))) {
      report([...path, index], 'overlaps an earlier window: change or remove one of them')
      sound = false
    }
    windows.push(window)
  }
  return sound ? windows.toSorted((one, other) => one.startMinute - other.startMinute) : null
}

function readWindow(start: string, end: string, path: Path, report: Report): PeakWindow | null {
  const startMinute = parseTimeOfDay(start)
  const endMinute = parseTimeOfDay(end)
  if (startMinute === null || startMinute === MINUTES_PER_DAY) {
    report([...path, 'start'], 'must be a time of day in UTC as "HH:MM", from "00:00" to "23:59"')
  }
  if (endMinute === null) report([...path, 'end'], 'must be a time of day in UTC as "HH:MM", up to "24:00"')
  if (startMinute === null || startMinute === MINUTES_PER_DAY || endMinute === null) return null
  if (startMinute === endMinute) {
    report(path, 'is empty, as it ends where it starts: for the whole day write "00:00" and "24:00"')
    return null
  }
  return { startMinute, endMinute: endMinute === 0 ? MINUTES_PER_DAY : endMinute }
}
