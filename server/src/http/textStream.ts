/** Sends a long text that is made while it is sent, one piece in memory at a time. */

import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { Watchdog } from '../lib/watchdog.ts'

/** A client that does not take a piece for this long has hung up. */
const PIECE_TAKEN_MS = MINUTE_MS

export interface TextStreamOptions {
  readonly clock: Clock
  /** Aborted when the client hangs up. */
  readonly signal: AbortSignal
  /** The stream is cut off after this many milliseconds. */
  readonly longestMs: number
  /** Called once, when the stream has ended and the source works no more. `error` says why it broke off; null: it did not. */
  readonly onEnd: (error: Error | null) => void
}

const encoder = new TextEncoder()

/**
 * Returns a stream of the pieces of `source`, each asked for when the client has taken the one before. Breaks off, so that nobody takes the text
 * for whole, when the source fails, when a piece is not taken within a minute, or after `longestMs`. The source is returned then.
 */
export function textStream(
  source: AsyncGenerator<string, void>,
  { clock, signal, longestMs, onEnd }: TextStreamOptions,
): ReadableStream<Uint8Array> {
  const endsAtMs = clock.monotonicMs() + longestMs
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  let isOver = false
  let isBegun = false

  const finish = (error: Error | null) => {
    if (isOver) return
    isOver = true
    watchdog.stop()
    signal.removeEventListener('abort', hangUp)
    // A piece that is being made is waited for.
    void source.return().then(
      () => onEnd(error),
      () => onEnd(error),
    )
  }
  const breakOff = (error: Error) => {
    if (isOver) return
    finish(error)
    controller?.error(error)
  }
  const hangUp = () => breakOff(new Error('the client hung up'))
  const watchdog = new Watchdog(clock, () => {
    breakOff(new Error(clock.monotonicMs() >= endsAtMs ? 'it took too long' : 'the client stopped reading'))
  })
  const waitAtMost = (waitMs: number) => watchdog.due(Math.min(clock.monotonicMs() + waitMs, endsAtMs))

  return new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started
        if (signal.aborted) return hangUp()
        signal.addEventListener('abort', hangUp, { once: true })
        waitAtMost(PIECE_TAKEN_MS)
      },
      async pull(current) {
        isBegun = true
        if (isOver) return
        // The source has deadlines of its own; the client is not to blame while it works.
        waitAtMost(longestMs)
        const taken = await source.next().catch((error: unknown) => {
          breakOff(error instanceof Error ? error : new Error('the source failed'))
          return null
        })
        if (taken === null || isOver) return
        if (taken.done) {
          finish(null)
          current.close()
          return
        }
        waitAtMost(PIECE_TAKEN_MS)
        current.enqueue(encoder.encode(taken.value))
      },
      // The answer to HEAD is cancelled before its first piece is asked for.
      cancel: () => finish(isBegun ? new Error('the client hung up') : null),
    },
    { highWaterMark: 0 },
  )
}
