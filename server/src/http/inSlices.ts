/** Sends an answer of more than 64 KiB that is in memory, as fast as its client takes it, and no more slowly than the least rate. */

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
  let hasEnded = false
  let windowBytes = 0
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const end: EndAnswer = (client) => {
    if (hasEnded) return
    hasEnded = true
    left.length = 0
    watchdog.stop()
    onEnd(client)
  }
  const watchdog = new Watchdog(clock, () => {
    end('stalled')
    controller?.error(new Error('the client reads too slowly'))
  })
  const openWindow = () => {
    windowBytes = 0
    watchdog.due(clock.monotonicMs() + MINUTE_MS)
  }
  return new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started
        openWindow()
      },
      pull(current) {
        if (hasEnded) return
        // The slice before this one was taken.
        if (windowBytes >= LEAST_BYTES_PER_MINUTE) openWindow()
        const first = left.shift()
        if (first === undefined) {
          end()
          current.close()
          return
        }
        if (first.byteLength > SLICE_BYTES) left.unshift(first.subarray(SLICE_BYTES))
        const slice = first.subarray(0, SLICE_BYTES)
        windowBytes += slice.byteLength
        current.enqueue(slice)
      },
      cancel: () => end(),
    },
    { highWaterMark: 0 },
  )
}
