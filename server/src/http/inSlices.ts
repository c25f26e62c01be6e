/** Sends an answer of more than 64 KiB, in memory or read as it leaves, as fast as its client takes it, and at the least rate. */

import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { Watchdog } from '../lib/watchdog.ts'
import type { Leaving } from './leaving.ts'
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
 * is less, are not taken within a minute, and when it is cut off.
 */
export function inSlices(pieces: Pieces, clock: Clock, leaving: Leaving): ReadableStream<Uint8Array> {
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
  return atLeastRate({ next, cancel }, clock, leaving)
}

/** Bytes that are read as they leave. */
export interface SliceSource {
  /** The next bytes; null after the last. */
  next(): Uint8Array | null | Promise<Uint8Array | null>
  /** Nothing more is read: its client has left, or stalled, or reading it has failed. */
  cancel(): void
}

/** The same of bytes that are not in memory. The time that the source takes to give its next bytes is not its client's. */
export function atLeastRate(source: SliceSource, clock: Clock, { onEnd, cutOff }: Leaving): ReadableStream<Uint8Array> {
  const sending = new Sending(source, clock, onEnd)
  const onCutOff = () => sending.fail(new Error('the answer was cut off'))
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        sending.start(controller)
        if (cutOff.aborted) onCutOff()
        else cutOff.addEventListener('abort', onCutOff)
      },
      pull: () => sending.pull(),
      cancel: () => sending.breakOff(),
    },
    { highWaterMark: 0 },
  )
}

/** An answer on its way to its client. */
class Sending {
  private readonly source: SliceSource
  private readonly clock: Clock
  private readonly onEnd: EndAnswer
  private readonly watchdog: Watchdog
  private controller: ReadableStreamDefaultController<Uint8Array> | null = null
  private hasEnded = false
  /** Taken since the client's minute began, which ends at `dueMs`. */
  private windowBytes = 0
  private dueMs = 0

  constructor(source: SliceSource, clock: Clock, onEnd: EndAnswer) {
    this.source = source
    this.clock = clock
    this.onEnd = onEnd
    this.watchdog = new Watchdog(clock, () => this.fail(new Error('the client reads too slowly'), 'stalled'))
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.controller = controller
    this.setDue(this.clock.monotonicMs() + MINUTE_MS)
  }

  /** Gives the next slice: the one before was taken. */
  async pull(): Promise<void> {
    if (this.hasEnded) return
    if (this.windowBytes >= LEAST_BYTES_PER_MINUTE) {
      this.windowBytes = 0
      this.setDue(this.clock.monotonicMs() + MINUTE_MS)
    }
    const next = this.source.next()
    if (!(next instanceof Promise)) return this.give(next)
    const askedMs = this.clock.monotonicMs()
    this.watchdog.stop()
    try {
      const slice = await next
      if (!this.hasEnded) this.setDue(this.dueMs + this.clock.monotonicMs() - askedMs)
      this.give(slice)
    } catch (error) {
      this.breakOff()
      throw error
    }
  }

  /** Breaks off so that the client sees it. */
  fail(error: Error, client?: 'stalled'): void {
    if (this.hasEnded) return
    this.breakOff(client)
    this.controller?.error(error)
  }

  breakOff(client?: 'stalled'): void {
    if (this.hasEnded) return
    this.source.cancel()
    this.end(client)
  }

  private give(slice: Uint8Array | null): void {
    if (this.hasEnded) return
    if (slice === null) {
      this.end()
      this.controller?.close()
      return
    }
    this.windowBytes += slice.byteLength
    this.controller?.enqueue(slice)
  }

  private end(client?: 'stalled'): void {
    this.hasEnded = true
    this.watchdog.stop()
    this.onEnd(client)
  }

  private setDue(atMs: number): void {
    this.dueMs = atMs
    this.watchdog.due(atMs)
  }
}
