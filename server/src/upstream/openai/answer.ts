import { createParser, type EventSourceParser } from 'eventsource-parser'
import { type HttpAnswer, HttpBodyTooLarge, HttpFailure } from '../../io/http.ts'
import { type ChatEvent, UpstreamFailure } from '../spec.ts'
import { eventsFromWire, type Progress } from './events.ts'

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
  private readonly decoder = new TextDecoder()
  private readonly parser: EventSourceParser
  private readonly progress: Progress = { begun: false, finished: false }
  private events: ChatEvent[] = []
  private nextIndex = 0
  private ended = false
  private failure: unknown = null

  constructor(answer: HttpAnswer) {
    this.answer = answer
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
    if (data === '[DONE]') {
      this.ended = true
      // The server says that the answer is whole, although it never said why it ended.
      if (this.progress.begun && !this.progress.finished) this.events.push({ kind: 'finish', reason: 'stop' })
      this.answer.release()
      return
    }
    try {
      eventsFromWire(data, this.progress, this.events)
    } catch (error) {
      this.fail(error)
    }
  }

  /** No `[DONE]`: some servers send none, so a finished answer is taken as whole; any other was cut off. */
  private endOfBody(): void {
    // By the standard a last event without its empty line is dropped; servers do forget that line after `[DONE]`.
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
  if (error instanceof HttpFailure) return new UpstreamFailure(begun ? 'faulty' : 'unavailable', error.message, !begun)
  if (error instanceof HttpBodyTooLarge) return faulty(error.message)
  return error
}

export function faulty(detail: string): UpstreamFailure {
  return new UpstreamFailure('faulty', detail, false)
}
