import type { Clock } from '../lib/time.ts'

/** The bodies that are being read, each of which has the same time to arrive. */
export interface BodyDeadlines {
  /** Calls `onLate` once when the time of a body is over; the result ends that, and may be called at any time. */
  begin(onLate: () => void): () => void
}

interface Reading {
  readonly dueMs: number
  readonly onLate: () => void
}

/** One timer for all bodies, since the first that begins is the first that is due. */
export function createBodyDeadlines(clock: Clock, limitMs: number): BodyDeadlines {
  const readings = new Set<Reading>()
  let isArmed = false
  const arm = (delayMs: number) => {
    isArmed = true
    clock.after(delayMs, expire)
  }
  const expire = () => {
    isArmed = false
    const nowMs = clock.monotonicMs()
    for (const reading of readings) {
      if (reading.dueMs > nowMs) return arm(reading.dueMs - nowMs)
      readings.delete(reading)
      reading.onLate()
    }
  }
  return {
    begin(onLate) {
      const reading = { dueMs: clock.monotonicMs() + limitMs, onLate }
      readings.add(reading)
      if (!isArmed) arm(limitMs)
      return () => void readings.delete(reading)
    },
  }
}
