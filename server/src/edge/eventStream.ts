import { type Clock, SECOND_MS } from '../kernel/time.ts'
import { Watchdog } from '../kernel/watchdog.ts'

/** A silent stream says something this often, so that proxies keep it open (C1). */
const KEEP_ALIVE_MS = 15 * SECOND_MS
const encoder = new TextEncoder()
const KEEP_ALIVE = encoder.encode(': keep-alive\n\n')

/** A client that takes nothing for this long is treated as gone: it would hold money and an upstream for ever. */
const STALLED_CLIENT_MS = 60 * SECOND_MS

/** Bytes that wait for a slow client here; beyond them the source is not read. The kernel's buffers come on top. */
const BUFFER_BYTES = 16_384

export interface EventStreamOptions {
  readonly clock: Clock
  /** Aborted when the client is gone, by whoever notices first: this stream or its owner. */
  readonly gone: AbortController
  /** Called once, when the source has ended, however it did. */
  readonly onEnd: () => void
  /** Sent before anything else, at once: the head of an answer leaves with its first bytes, and a silent source has none yet. */
  readonly opening?: string
}

/**
 * Sends server-sent events as their parts are produced; `toWire` writes a part out. The source is read only as fast as the client takes them. When the
 * client hangs up or stalls the source is returned, so that its `finally` runs; its first step is always taken.
 */
export function eventStream<Part>(
  source: AsyncGenerator<Part, void>,
  toWire: (part: Part) => string,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const { clock, gone, onEnd, opening } = options
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  // Taken before anyone asks: a generator that was never started would skip its `finally` when it is returned.
  let step: Promise<IteratorResult<Part, void>> | null = source.next()
  let waitsForSource = true
  let ended = false

  const finish = () => {
    if (ended) return
    ended = true
    watchdog.stop()
    onEnd()
  }
  const abandon = async () => {
    if (ended) return
    watchdog.stop()
    try {
      await step
      await source.return()
    } catch {
      // A source that fails while it ends has reported that itself.
    }
    finish()
  }
  const watchdog = new Watchdog(clock, () => {
    if (waitsForSource) {
      controller?.enqueue(KEEP_ALIVE.slice())
      watchdog.due(clock.monotonicMs() + KEEP_ALIVE_MS)
    } else {
      controller?.error(new Error('the client stopped reading'))
      gone.abort()
    }
  })
  // A client may have left before there was an answer to stream; no event tells of that again.
  if (gone.signal.aborted) void abandon()
  else gone.signal.addEventListener('abort', () => void abandon(), { once: true })

  return new ReadableStream<Uint8Array>(
    {
      start(started) {
        controller = started
        if (opening !== undefined) started.enqueue(encoder.encode(opening))
      },
      async pull(current) {
        if (ended || gone.signal.aborted) return
        waitsForSource = true
        watchdog.due(clock.monotonicMs() + KEEP_ALIVE_MS)
        step ??= source.next()
        const taken = await step.catch((error: unknown) => {
          // The stream breaks off then, so that nobody takes it for whole.
          finish()
          throw error
        })
        waitsForSource = false
        step = null
        if (ended || gone.signal.aborted) return
        if (taken.done) {
          finish()
          current.close()
        } else {
          watchdog.due(clock.monotonicMs() + STALLED_CLIENT_MS)
          current.enqueue(encoder.encode(toWire(taken.value)))
        }
      },
      cancel: () => gone.abort(),
    },
    { highWaterMark: BUFFER_BYTES, size: (chunk) => chunk?.byteLength ?? 0 },
  )
}
