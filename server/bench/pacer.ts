/**
 * Wakes the open-loop driver when a call is due. A timer of the event loop has a grain of one millisecond, longer than
 * the latencies that are measured; a thread that waits on a futex is good to a tenth of that and costs next to nothing.
 */
import { sharedMicroseconds } from './instant.ts'

declare const self: Worker

/** Calls are due `intervalMs` apart, `count` of them, from `startAt` (instant.ts) on. */
export interface PacerOrder {
  readonly startAt: number
  readonly intervalMs: number
  readonly count: number
  /** Set to 1 with each message and back to 0 by the driver, so that a slow driver isn't flooded with wake-ups. */
  readonly pending: Int32Array
}

self.onmessage = (message: MessageEvent<PacerOrder>) => {
  const { startAt, intervalMs, count, pending } = message.data
  const never = new Int32Array(new SharedArrayBuffer(4))
  for (let index = 0; index < count; index++) {
    const waitMs = (startAt - sharedMicroseconds()) / 1000 + index * intervalMs
    if (waitMs > 0) Atomics.wait(never, 0, 0, waitMs)
    if (Atomics.exchange(pending, 0, 1) === 0) self.postMessage('due')
  }
}
