import { createParser, type EventSourceParser } from 'eventsource-parser'
import { type HttpAnswer, HttpBodyTooLarge, HttpFailure } from '../io/http.ts'
import { faulty } from './failure.ts'
import { type ChatEvent, UpstreamFailure } from './spec.ts'

/** What has been seen of an answer; kept from event to event. */
export interface Progress {
  /** Anything of the answer has come. */
  begun: boolean
  finished: boolean
}

/**
 * Appends to `into` what the data of one server-sent event says in a dialect's words; true when it says that the answer is
 * whole. Throws {@link UpstreamFailure} for errors and for what makes no sense. One for each answer: it may remember.
 */
export type ReadEvent = (data: string, progress: Progress, into: ChatEvent[]) => boolean

/** Characters of one server-sent event. A chunk has hundreds; a server that sends a whole answer in one has less. */
const MAX_EVENT_CHARACTERS = 4 << 20

type Next = IteratorResult<ChatEvent, undefined>
const END: Next = { done: true, value: undefined }

/**
 * The answer of a streamed call as events. Written out rather than as a generator: an event that is already here costs
 * one settled promise. One `next()` at a time, as `for await` does it.
 */
export class StreamedChat implements AsyncIterableIterator<ChatEvent, undefined> {
  private readonly answer: HttpAnswer
  private readonly readEvent: ReadEvent
  private readonly decoder = new TextDecoder()
  private readonly parser: EventSourceParser
  private readonly progress: Progress = { begun: false, finished: false }
  private events: ChatEvent[] = []
  private nextIndex = 0
  private ended = false
  private failure: unknown = null

  constructor(answer: HttpAnswer, readEvent: ReadEvent) {
    this.answer = answer
    this.readEvent = readEvent
    this.parser = createParser({
      onEvent: (event) => this.take(event.data),
      onError: (error) => {
        // Fields that the standard does not know are to be ignored; only the bound is a failure.
        if (error.type === 'max-buffer-size-exceeded') this.fail(faulty('an event of the stream is too long'))
      },
      maxBufferSize: MAX_EVENT_CHARACTERS,
    })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Next> {
    const event = this.shift()
    return event === undefined ? this.pull() : Promise.resolve({ done: false, value: event })
  }

  ready(): ChatEvent | undefined {
    return this.shift()
  }

  return(): Promise<Next> {
    if (!this.ended) this.stop()
    return Promise.resolve(END)
  }

  private shift(): ChatEvent | undefined {
    const event = this.events[this.nextIndex]
    if (event !== undefined) this.nextIndex += 1
    return event
  }

  /** Reads on until there is an event, the end, or a failure. What came before a failure is given out before it. */
  private async pull(): Promise<Next> {
    this.events = []
    this.nextIndex = 0
    for (;;) {
      const event = this.shift()
      if (event !== undefined) return { done: false, value: event }
      if (this.failure !== null) throw this.failure
      if (this.ended) return END
      await this.read()
    }
  }

  private async read(): Promise<void> {
    try {
      const bytes = await this.answer.read()
      if (bytes !== null) this.parser.feed(this.decoder.decode(bytes, { stream: true }))
      else if (!this.ended) this.endOfBody()
    } catch (error) {
      this.fail(failureOfBody(error, this.progress.begun))
    }
  }

  private take(data: string): void {
    if (this.ended) return
    try {
      if (!this.readEvent(data, this.progress, this.events)) return
    } catch (error) {
      this.fail(error)
      return
    }
    this.ended = true
    // The server says that the answer is whole, although it never said why it ended.
    if (this.progress.begun && !this.progress.finished) this.events.push({ kind: 'finish', reason: 'stop' })
    this.answer.release()
  }

  /** Nothing said that the answer is whole: some servers don't, so a finished one is taken as whole; any other was cut off. */
  private endOfBody(): void {
    // By the standard a last event without its empty line is dropped; servers do forget that line after the last.
    this.parser.feed('\n\n')
    if (this.ended) return
    this.ended = true
    if (!this.progress.finished) this.fail(faulty('the stream ended before the answer did'))
  }

  private fail(failure: unknown): void {
    this.failure ??= failure
    this.stop()
  }

  private stop(): void {
    this.ended = true
    this.answer.cancel()
  }
}

/** What reading a body threw, as a failure; the reason of an abort stays what it is. */
export function failureOfBody(error: unknown, begun: boolean): unknown {
  // Broken off before anything had come, it is a failed connection; later it is half an answer.
  if (error instanceof HttpFailure)
    return new UpstreamFailure(begun ? 'faulty' : 'unavailable', error.message, { mayFailOver: !begun })
  if (error instanceof HttpBodyTooLarge) return faulty(error.message)
  return error
}
