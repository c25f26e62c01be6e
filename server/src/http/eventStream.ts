import type { Arriving } from '../lib/arriving.ts'
import type { OwnSignal } from '../lib/callSignal.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { Watchdog } from '../lib/watchdog.ts'
import { STALLED_CLIENT_MS } from './stalledClient.ts'

/** A silent stream says something this often, so that proxies keep it open (C1). */
const KEEP_ALIVE_MS = 15 * SECOND_MS

/** The headers of every stream of server-sent events. Without the last, nginx gathers a stream before it passes it on. */
export const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache',
  'X-Accel-Buffering': 'no',
} as const

const KEEP_ALIVE = ': keep-alive\n\n'

const LEFT = new DOMException('The client has left.', 'AbortError')
const STALLED = new DOMException('The client stopped reading.', 'AbortError')

export interface EventStreamOptions {
  readonly clock: Clock
  /** Aborted when the client is gone, by whoever notices first: this stream or its owner. */
  readonly gone: OwnSignal
  /** Called once, when the source has ended, however it did. */
  readonly onEnd: () => void
  /**
   * True: after the client has left, the source is read, and written by `toWire`, to its end; its work goes on for whoever
   * asks again. Left out: the source is ended by its `return()` when the client leaves.
   */
  readonly isReadToItsEnd?: boolean
  /** Sent before anything else, at once: the head of an answer leaves with its first bytes, and a silent source has none yet. */
  readonly opening?: string
}

/** The parts of a stream. */
type Source<Part> = AsyncGenerator<Part, void> & Arriving<Part>

/**
 * Writes a part out, once each and in order. A promise is meant for a last part, whose bytes may leave only once something is
 * done.
 */
type ToWire<Part> = (part: Part) => string | Promise<string>

/** The client's end of a direct stream (https://bun.com/docs/runtime/streams), as far as it is used. */
export interface Sink {
  /** A promise: the connection takes nothing more until it resolves. */
  write(text: string): number | Promise<number>
  /** Sends what was written. */
  flush(): unknown
  /** Ends the answer in order. */
  end(): unknown
  /** Breaks the answer off, so that nobody takes it for whole. */
  close(reason: unknown): unknown
}

/**
 * Sends server-sent events as their parts are produced. The source is read only as fast as the client takes its parts. When the
 * client hangs up or stalls the source is returned, so that its `finally` runs; its first step is always taken.
 */
export function eventStream<Part>(
  source: Source<Part>,
  toWire: ToWire<Part>,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const sender = new EventSender(source, toWire, options)
  const direct = {
    type: 'direct',
    pull: (sink: Sink) => sender.begin(sink),
    cancel: () => options.gone.abort(LEFT),
  }
  // The types of the web's streams don't know Bun's direct ones.
  return new ReadableStream<Uint8Array>(direct as unknown as UnderlyingDefaultSource<Uint8Array>)
}

/** Reads a source, and sends what it gives in the same turn of the event loop, where the source is {@link Arriving}. */
export class EventSender<Part> {
  private readonly source: Source<Part>
  private readonly toWire: ToWire<Part>
  private readonly options: EventStreamOptions
  private readonly watchdog: Watchdog
  private sink: Sink | null = null
  /** A part that the source was asked for, and that was not looked at yet. */
  private step: Promise<IteratorResult<Part, void>> | null
  /** The first part, once it is here and as long as nobody has asked for the answer. */
  private first: IteratorResult<Part, void> | null = null
  /** A part that is being written. */
  private writing: Promise<string> | null = null
  /** The client takes nothing at the moment. */
  private isFull = false
  private hasEnded = false
  private readonly ended = Promise.withResolvers<void>()

  constructor(source: Source<Part>, toWire: ToWire<Part>, options: EventStreamOptions) {
    this.source = source
    this.toWire = toWire
    this.options = options
    this.watchdog = new Watchdog(options.clock, this.onDue)
    // Taken before anyone asks: a generator that was never started would skip its `finally` when it is returned.
    this.step = source.next()
    this.step.then(
      (taken) => {
        this.first = taken
      },
      () => {},
    )
    // A client may have left before there was an answer to stream; no event tells of that again.
    if (options.gone.aborted) void this.abandon()
    else options.gone.addEventListener('abort', () => void this.abandon())
  }

  /** Begins to send; resolves when the source has ended. Call it once. */
  begin(sink: Sink): Promise<void> {
    this.sink = sink
    const { opening } = this.options
    if (opening !== undefined) this.send(opening)
    this.stayOpen()
    // In this turn the head has not left yet: a part that is here goes out with it.
    const { first } = this
    this.first = null
    if (first === null) this.step?.then(this.onStep, this.onFailed)
    else this.onStep(first)
    return this.ended.promise
  }

  private get isOver(): boolean {
    return this.hasEnded || this.options.gone.aborted
  }

  /** Sends what is here, and waits for more by the shortest way that the source offers. */
  private readonly proceed = (): void => {
    try {
      while (!this.isOver && !this.isFull && this.writing === null) {
        const part = this.source.ready?.()
        if (part === undefined) {
          this.waitForMore()
          return
        }
        this.put(part)
      }
    } catch (error) {
      void this.breakOff(error)
    }
  }

  private waitForMore(): void {
    this.stayOpen()
    if (this.source.whenReady?.(this.proceed) === true) return
    this.step = this.source.next()
    this.step.then(this.onStep, this.onFailed)
  }

  private readonly onStep = (taken: IteratorResult<Part, void>): void => {
    // Else it is for whoever reads on without the client.
    if (this.isOver) return
    this.step = null
    if (taken.done) {
      this.finish()
      this.sink?.end()
      return
    }
    try {
      this.put(taken.value)
    } catch (error) {
      return void this.breakOff(error)
    }
    this.proceed()
  }

  private readonly onFailed = (error: unknown): void => {
    if (this.isOver) return
    this.finish()
    this.sink?.close(error)
  }

  private put(part: Part): void {
    const text = this.toWire(part)
    if (typeof text === 'string') {
      this.send(text)
      return
    }
    this.writing = text
    text.then(
      (written) => {
        this.writing = null
        if (this.isOver) return
        this.send(written)
        this.proceed()
      },
      (error: unknown) => {
        this.writing = null
        void this.breakOff(error)
      },
    )
  }

  private send(text: string): void {
    const { sink } = this
    if (sink === null) return
    const written = sink.write(text)
    sink.flush()
    if (!(written instanceof Promise)) return
    this.isFull = true
    this.watchdog.due(this.options.clock.monotonicMs() + STALLED_CLIENT_MS)
    const goOn = () => {
      this.isFull = false
      this.stayOpen()
      if (this.step === null) this.proceed()
    }
    written.then(goOn, () => {})
  }

  private stayOpen(): void {
    if (!this.isOver) this.watchdog.due(this.options.clock.monotonicMs() + KEEP_ALIVE_MS)
  }

  private readonly onDue = (): void => {
    if (this.isFull) {
      this.sink?.close(STALLED)
      this.options.gone.abort(STALLED)
    } else {
      this.stayOpen()
      this.send(KEEP_ALIVE)
    }
  }

  private finish(): void {
    if (this.hasEnded) return
    this.hasEnded = true
    this.watchdog.stop()
    this.ended.resolve()
    this.options.onEnd()
  }

  /** A part could not be written: nothing that comes behind it makes a whole of the answer. */
  private async breakOff(error: unknown): Promise<void> {
    await this.abandon(false)
    this.sink?.close(error)
  }

  /** The client is gone. */
  private async abandon(isReadOn = this.options.isReadToItsEnd ?? false): Promise<void> {
    if (this.hasEnded) return
    this.watchdog.stop()
    const pending = this.step
    try {
      await this.writing
      if (isReadOn) await this.readOn(pending)
      else await pending
    } catch {
      // A source that fails while it ends has reported that itself.
    }
    await this.source.return().catch(() => {})
    this.finish()
  }

  private async readOn(pending: typeof this.step): Promise<void> {
    for (let next = pending ?? this.source.next(); ; next = this.source.next()) {
      const taken = await next
      if (taken.done) return
      await this.toWire(taken.value)
    }
  }
}
