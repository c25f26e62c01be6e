/** Sends an answer of more than 64 KiB, in memory or read as it leaves, as fast as its client takes it, and at the least rate. */

import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { Watchdog } from '../lib/watchdog.ts'
import type { EndAnswer } from './stalledClient.ts'

/** Answers of up to so many bytes leave at once: the kernel takes them whole. */
export const AT_ONCE_BYTES = 64 << 10

/** The bytes of a large answer that its connection is given at a time. */
const SLICE_BYTES = 256 << 10

/**
 * A client must take so many bytes a minute, which lines of 140 kbit/s do. One that took a few bytes now and then would keep the
 * answer in the memory of all large answers for hours.
 */
export const LEAST_BYTES_PER_MINUTE = 1 << 20

/** The bytes of an answer, one piece behind the other. */
export type Pieces = readonly Uint8Array<ArrayBuffer>[]

/**
 * Returns a stream that gives the pieces out as they are read. It breaks off when {@link LEAST_BYTES_PER_MINUTE}, or the rest if that
 * is less, are not taken within a minute. `onEnd` is called once: when all of it has left, its client has, or it breaks off, since the
 * client has `stalled`.
 */
export function inSlices(pieces: Pieces, clock: Clock, onEnd: EndAnswer): ReadableStream<Uint8Array> {
  const left = [...pieces]
  const next = () => {
    const first = left.shift()
    if (first === undefined) return null
    if (first.byteLength > SLICE_BYTES) left.unshift(first.subarray(SLICE_BYTES))
    return first.subarray(0, SLICE_BYTES)
  }
  const cancel = () => {
    left.length = 0
  }
  return atLeastRate({ next, cancel }, clock, onEnd)
}

/** Bytes that are read as they leave. */
export interface SliceSource {
  /** The next bytes; null after the last. */
  next(): Uint8Array | null | Promise<Uint8Array | null>
  /** Nothing more is read: its client has left, or stalled, or reading it has failed. */
  cancel(): void
}

/** The same of bytes that are not in memory. The time that the source takes to give its next bytes is not its client's. */
export function atLeastRate(source: SliceSource, clock: Clock, onEnd: EndAnswer): ReadableStream<Uint8Array> {
  let hasEnded = false
  let windowBytes = 0
  let dueMs = 0
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const end: EndAnswer = (client) => {
    if (hasEnded) return
    hasEnded = true
    watchdog.stop()
    onEnd(client)
  }
  const breakOff: EndAnswer = (client) => {
    if (!hasEnded) source.cancel()
    end(client)
  }
  const watchdog = new Watchdog(clock, () => {
    breakOff('stalled')
    controller?.error(new Error('the client reads too slowly'))
  })
  const setDue = (atMs: number) => {
    dueMs = atMs
    watchdog.due(atMs)
  }
  const give = (slice: Uint8Array | null, current: ReadableStreamDefaultController<Uint8Array>) => {
    if (hasEnded) return
    if (slice !== null) {
      windowBytes += slice.byteLength
      current.enqueue(slice)
      return
    }
    end()
    current.close()
  }
  return new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started
        setDue(clock.monotonicMs() + MINUTE_MS)
      },
      async pull(current) {
        if (hasEnded) return
        // The slice before this one was taken.
        if (windowBytes >= LEAST_BYTES_PER_MINUTE) {
          windowBytes = 0
          setDue(clock.monotonicMs() + MINUTE_MS)
        }
        const next = source.next()
        if (!(next instanceof Promise)) return give(next, current)
        const askedMs = clock.monotonicMs()
        watchdog.stop()
        try {
          const slice = await next
          if (!hasEnded) setDue(dueMs + clock.monotonicMs() - askedMs)
          give(slice, current)
        } catch (error) {
          breakOff()
          throw error
        }
      },
      cancel: () => breakOff(),
    },
    { highWaterMark: 0 },
  )
}
