/** Durations and waits: the part of a clock that does not know the date. */
export interface Timers {
  /** Milliseconds from an arbitrary origin; never steps back. For durations and deadlines. */
  monotonicMs(): number
  /** Calls `callback` once, `delayMs` from now; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void
}

/**
 * Time as an argument. Everything that needs to know or wait for an instant is given a {@link Clock}. That of a gateway and of a
 * command is the database's (E20).
 */
export interface Clock extends Timers {
  /** Milliseconds since the Unix epoch, UTC. May step when the database's clock is set. */
  now(): number
}

export const SECOND_MS = 1_000
export const MINUTE_MS = 60_000
export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
export const WEEK_MS = 7 * DAY_MS

export const DAY_SECONDS = 86_400

/** Returns the fewest whole seconds after which an instant is over: at the instant itself, what counts until then still counts. */
export function secondsUntilOver(atMs: number, nowMs: number): number {
  return Math.floor((atMs - nowMs) / SECOND_MS) + 1
}

/** Returns the whole seconds until an instant, at least 1: after so many a client may try again. */
export function secondsUntil(atMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((atMs - nowMs) / SECOND_MS))
}

/** Resolves after `delayMs` of the clock. */
export function sleep(clock: Timers, delayMs: number): Promise<void> {
  return new Promise((resolve) => clock.after(delayMs, resolve))
}

/** Resolves in the next turn of the event loop: what has come meanwhile is served before. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Settles as `work` does; resolves to `late` once `longestMs` have passed, whatever becomes of the work afterwards. */
export function within<T, Late>(clock: Timers, longestMs: number, work: Promise<T>, late: Late): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(longestMs, () => resolve(late))
    work.then(resolve, reject).finally(cancel)
  })
}

/** RFC 3339, UTC, milliseconds, `Z` (E15). */
export function toTimestamp(epochMs: number): string {
  // Of a busy server many calls are of one millisecond.
  if (epochMs !== last.epochMs) last = { epochMs, text: new Date(epochMs).toISOString() }
  return last.text
}

/** The one that was written last. */
let last = { epochMs: 0, text: '1970-01-01T00:00:00.000Z' }

/** The UTC calendar day of an instant as `YYYY-MM-DD`. */
export function utcDay(epochMs: number): string {
  return toTimestamp(epochMs).slice(0, 10)
}
