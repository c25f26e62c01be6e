/** One POST whose answer is a stream: sends it, and reads the answer as events. Its twin for whole answers is `whole.ts`. */

import { createParser, type EventSourceParser } from 'eventsource-parser'
import { type Http, type HttpAnswer, HttpBodyTooLarge, HttpFailure } from '../../infra/httpClient.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import type { Clock } from '../../lib/time.ts'
import { faulty, retryAfterFromWire } from './failure.ts'
import { type ChatAnswer, type ChatEvent, ProviderFailure } from './spec.ts'

/** Bytes of a whole answer: some 300 a chunk, a chunk a token, for the longest answers that models give. */
const MAX_ANSWER_BYTES = 256 << 20
/** Bytes of an error's body that are read to find out what is wrong. */
export const ERROR_MOST_BYTES = 64 << 10
/** Bytes of a completion that came as one JSON document in place of a stream; it is held in memory. */
const MAX_JSON_BYTES = 8 << 20

/** One POST that starts a streamed answer. */
export interface ChatPost {
  readonly url: string
  /** All of them, {@link chatHeaders} among them, names in lower case. An object that is used again is written out once. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: CallSignal
  readonly connectMs: number
  readonly onWritten?: (() => void) | undefined
}

/** How answers are understood. */
export interface ChatWire {
  /** Reads the events of one answer. */
  readonly reader: () => ReadEvent
  /** True when an answer may be one JSON document in place of a stream; its one event is the document. */
  readonly takesJson: boolean
  /** A status that is no success, with the (bounded) text of its body. */
  readonly failureOfStatus: (status: number, body: string, retryAfterSeconds: number | null) => ProviderFailure
}

/**
 * The headers of every call to a server: the operator's own, which may name the client otherwise, and ours, which they
 * can't replace. All names in lower case: a name in two spellings would be sent as one header with both values.
 */
export function chatHeaders(own: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const lowered = Object.fromEntries(Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]))
  return {
    'user-agent': 'tollgate',
    ...lowered,
    'content-type': 'application/json',
    accept: 'text/event-stream, application/json',
    // Compressing a stream delays its chunks, and what is never decompressed can't be a bomb.
    'accept-encoding': 'identity',
  }
}

/** Sends a chat call; resolves when its answer has begun, as `Provider.chat` does. */
export async function postChat(http: Http, clock: Clock, post: ChatPost, wire: ChatWire): Promise<ChatAnswer> {
  const { url, headers, body, signal, connectMs, onWritten } = post
  const request = { headers, body, signal, connectMs, onWritten, maxBytes: MAX_ANSWER_BYTES, mayRepeat: true }
  let answer: HttpAnswer
  try {
    answer = await http.post(url, request)
  } catch (error) {
    throw error instanceof HttpFailure ? failureOfConnection(error) : error
  }
  return answer.status === 200 ? begin(answer, wire) : await refuse(answer, clock, wire)
}

/** Something answered, but not HTTP: that is a wrong port or a broken server, not one that is away. */
function failureOfConnection(failure: HttpFailure): ProviderFailure {
  if (failure.code === 'MALFORMED') return faulty('the answer is not HTTP')
  return new ProviderFailure('unavailable', failure.message, {
    mayFailOver: true,
    mayAskAgain: !failure.outcomeUnknown,
  })
}

function begin(answer: HttpAnswer, wire: ChatWire): ChatAnswer | Promise<ChatAnswer> {
  const encoding = answer.header('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    answer.cancel()
    throw faulty('the answer is compressed, although that was refused')
  }
  const mediaType = (answer.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType === 'text/event-stream') return new StreamedChat(answer, wire.reader())
  if (mediaType === 'application/json' && wire.takesJson) return readWhole(answer, wire.reader())
  answer.cancel()
  throw faulty(`the content type is ${/^[a-z]+\/[a-z.+-]{1,40}$/.test(mediaType ?? '') ? mediaType : 'not known'}`)
}

/** A server that does not stream: its completion has the same content, in `message` instead of `delta`. */
async function readWhole(answer: HttpAnswer, readEvent: ReadEvent): Promise<AsyncIterable<ChatEvent>> {
  const { text, cut } = await readText(answer, MAX_JSON_BYTES)
  if (cut) throw faulty('the JSON answer is too long')
  const progress = { begun: false, finished: false }
  const events: ChatEvent[] = []
  readEvent(text, progress, events)
  if (!progress.finished) throw faulty('the JSON answer has no finish_reason')
  return inOrder(events)
}

async function* inOrder(events: readonly ChatEvent[]): AsyncIterable<ChatEvent> {
  yield* events
}

async function refuse(answer: HttpAnswer, clock: Clock, wire: ChatWire): Promise<never> {
  const { text } = await readText(answer, ERROR_MOST_BYTES)
  throw wire.failureOfStatus(answer.status, text, retryAfterFromWire(answer.header('retry-after'), clock.now()))
}

/** The body as text, cut after `maxBytes`. */
async function readText(answer: HttpAnswer, maxBytes: number): Promise<{ text: string; cut: boolean }> {
  const decoder = new TextDecoder()
  let text = ''
  let seenBytes = 0
  try {
    for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read()) {
      seenBytes += bytes.byteLength
      if (seenBytes > maxBytes) {
        answer.cancel()
        return { text, cut: true }
      }
      text += decoder.decode(bytes, { stream: true })
    }
  } catch (error) {
    throw failureOfBody(error, false)
  }
  return { text: text + decoder.decode(), cut: false }
}

/** The progress of an answer; kept from event to event. */
export interface Progress {
  /** Anything of the answer has come. */
  begun: boolean
  finished: boolean
}

/**
 * Appends to `into` what the data of one server-sent event says in a dialect's words; true when it says that the answer is
 * whole. Throws {@link ProviderFailure} for errors and for what makes no sense. One for each answer: it may remember.
 */
export type ReadEvent = (data: string, progress: Progress, into: ChatEvent[]) => boolean

/** Characters of one server-sent event. A chunk has hundreds; a server that sends a whole answer in one has less. */
const MAX_EVENT_CHARACTERS = 4 << 20

type Next = IteratorResult<ChatEvent, undefined>
const END: Next = { done: true, value: undefined }

/** For pieces that hold whole characters. */
const WHOLE = new TextDecoder('utf-8', { ignoreBOM: true })

/**
 * The answer of a streamed call as events. Written out rather than as a generator: an event that is already here costs
 * one settled promise. One `next()` at a time, as `for await` does it.
 */
export class StreamedChat implements AsyncIterableIterator<ChatEvent, undefined> {
  private readonly answer: HttpAnswer
  private readonly readEvent: ReadEvent
  /** Of an answer whose pieces end within characters; null while none has. */
  private decoder: TextDecoder | null = null
  private readonly parser: EventSourceParser
  private readonly progress: Progress = { begun: false, finished: false }
  private events: ChatEvent[] = []
  private nextIndex = 0
  private ended = false
  private waiting: (() => void) | null = null
  private failure: unknown = null

  constructor(answer: HttpAnswer, readEvent: ReadEvent) {
    this.answer = answer
    this.readEvent = readEvent
    this.parser = createParser({
      onEvent: ({ data, event }) => this.take(data, event),
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
    return this.fill() ? this.shift() : undefined
  }

  whenReady(callback: () => void): boolean {
    if (this.ended || this.answer.whenReady?.(this.onBytes) !== true) return false
    this.waiting = callback
    return true
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

  /** Reads on until there is an event, the end, or a failure. Events before a failure are given out before it. */
  private async pull(): Promise<Next> {
    this.forgetTaken()
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
      if (bytes !== null) this.feed(bytes)
      else if (!this.ended) this.endOfBody()
    } catch (error) {
      this.fail(failureOfBody(error, this.progress.begun))
    }
  }

  /** Called when bytes or the end have come. Wakes the reader for whole events alone. */
  private readonly onBytes = (): void => {
    if (!this.fill() && !this.ended && this.answer.whenReady?.(this.onBytes) === true) return
    const { waiting } = this
    this.waiting = null
    waiting?.()
  }

  /** Reads what is here until there is an event; false: there is none. */
  private fill(): boolean {
    while (this.nextIndex === this.events.length && !this.ended) {
      const bytes = this.answer.ready?.()
      if (bytes === undefined) return false
      this.forgetTaken()
      this.feed(bytes)
    }
    return this.nextIndex < this.events.length
  }

  private forgetTaken(): void {
    this.events = []
    this.nextIndex = 0
  }

  private feed(bytes: Uint8Array): void {
    this.parser.feed(this.decode(bytes))
  }

  private decode(bytes: Uint8Array): string {
    if (this.decoder === null) {
      if ((bytes.at(-1) ?? 0) < 0x80) return WHOLE.decode(bytes)
      this.decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    }
    return this.decoder.decode(bytes, { stream: true })
  }

  private take(data: string, name: string | undefined): void {
    if (this.ended) return
    try {
      const isWhole = this.readEvent(data, this.progress, this.events)
      // A dialect that knows the words has thrown a better failure.
      if (name === 'error') throw faulty('the server sent an event of the name error')
      if (!isWhole) return
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

/** Turns an error of reading a body into a failure; the reason of an abort stays as it is. */
function failureOfBody(error: unknown, begun: boolean): unknown {
  // Broken off before anything had come, it is a failed connection; later it is half an answer.
  if (error instanceof HttpFailure)
    return new ProviderFailure(begun ? 'faulty' : 'unavailable', error.message, { mayFailOver: !begun })
  if (error instanceof HttpBodyTooLarge) return faulty(error.message)
  return error
}
