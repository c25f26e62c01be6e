import { type Http, type HttpAnswer, HttpFailure } from '../io/http.ts'
import type { Clock } from '../kernel/time.ts'
import { failureOfBody, type ReadEvent, StreamedChat } from './answer.ts'
import { faulty, retryAfterFromWire } from './failure.ts'
import { type ChatAnswer, type ChatEvent, UpstreamFailure } from './spec.ts'

/** Bytes of a whole answer: some 300 a chunk, a chunk a token, for the longest answers that models give. */
const MAX_ANSWER_BYTES = 256 << 20
/** Bytes of a completion that came as one JSON document in place of a stream; it is held in memory. */
const MAX_JSON_BYTES = 8 << 20
/** Bytes of an error's body that are read to find out what is wrong. */
const MAX_ERROR_BYTES = 64 << 10

/** One POST that starts a streamed answer. */
export interface ChatPost {
  readonly url: string
  /** All of them, {@link chatHeaders} among them, names in lower case. An object that is used again is written out once. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
  readonly connectMs: number
}

/** How answers are understood. */
export interface ChatWire {
  /** Reads the events of one answer. */
  readonly reader: () => ReadEvent
  /** Whether an answer may be one JSON document in place of a stream; its one event is the document. */
  readonly takesJson: boolean
  /** A status that is no success, with the (bounded) text of its body. */
  readonly failureOfStatus: (status: number, body: string, retryAfterSeconds: number | null) => UpstreamFailure
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

/** Sends a chat call; resolves when its answer has begun, as `Upstream.chat` does. */
export async function postChat(http: Http, clock: Clock, post: ChatPost, wire: ChatWire): Promise<ChatAnswer> {
  const { url, ...request } = post
  let answer: HttpAnswer
  try {
    answer = await http.post(url, { ...request, maxBytes: MAX_ANSWER_BYTES })
  } catch (error) {
    throw error instanceof HttpFailure ? failureOfConnection(error) : error
  }
  return answer.status === 200 ? begin(answer, wire) : await refuse(answer, clock, wire)
}

/** Something answered, but not HTTP: that is a wrong port or a broken server, not one that is away. */
function failureOfConnection(failure: HttpFailure): UpstreamFailure {
  if (failure.code === 'MALFORMED') return faulty('the answer is not HTTP')
  return new UpstreamFailure('unavailable', failure.message, {
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
  const { text } = await readText(answer, MAX_ERROR_BYTES)
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
