import { type Http, type HttpAnswer, HttpFailure } from '../../io/http.ts'
import type { Clock } from '../../kernel/time.ts'
import { type ChatAnswer, type ChatEvent, type Upstream, UpstreamFailure } from '../spec.ts'
import { failureOfBody, faulty, StreamedChat } from './answer.ts'
import { eventsFromWire } from './events.ts'
import { failureOfStatus, retryAfterFromWire } from './failure.ts'
import { toWire } from './request.ts'

/** Bytes of a whole answer: some 300 a chunk, a chunk a token, for the longest answers that models give. */
const MAX_ANSWER_BYTES = 256 << 20
/** Bytes of a completion that came as one JSON document in place of a stream; it is held in memory. */
const MAX_JSON_BYTES = 8 << 20
/** Bytes of an error's body that are read to find out what is wrong. */
const MAX_ERROR_BYTES = 64 << 10

export interface OpenaiUpstreamOptions {
  /** Its name in the settings file. */
  readonly name: string
  /** Where `/chat/completions` is appended, such as `http://127.0.0.1:8000/v1`; null while there is no server. */
  readonly address: () => string | null
  /** The credential of the `Authorization` header, asked for at every call; null for none. */
  readonly bearer: () => string | null | Promise<string | null>
  /** Sent with every call, such as `OpenAI-Organization`. */
  readonly extraHeaders?: Readonly<Record<string, string>>
  readonly http: Http
  readonly clock: Clock
}

/** A server that speaks OpenAI's chat completions: vLLM, SGLang, Ollama, llama.cpp, LM Studio, OpenAI, our GGUF child. */
export function openaiUpstream(options: OpenaiUpstreamOptions): Upstream {
  const { name, address, http, clock } = options
  // All names in lower case: a name in two spellings would be sent as one header with both values.
  const fixedHeaders = {
    'user-agent': 'tollgate',
    ...lowerCased(options.extraHeaders ?? {}),
    'content-type': 'application/json',
    accept: 'text/event-stream, application/json',
    // Compressing a stream delays its chunks, and what is never decompressed can't be a bomb.
    'accept-encoding': 'identity',
  }

  /** One object for as long as the credential stays the same, so that it is written out once. */
  const headersWith = (bearer: string | null) => {
    if (bearer === lastBearer) return lastHeaders
    lastBearer = bearer
    lastHeaders = bearer === null ? fixedHeaders : { ...fixedHeaders, authorization: `Bearer ${bearer}` }
    return lastHeaders
  }
  let lastBearer: string | null = null
  let lastHeaders: Readonly<Record<string, string>> = fixedHeaders

  return {
    name,
    async chat(call, signal, connectMs) {
      const baseUrl = address()
      if (baseUrl === null) throw new UpstreamFailure('unavailable', 'the server is not running', true)
      const credential = options.bearer()
      const bearer = credential instanceof Promise ? await credential : credential
      let answer: HttpAnswer
      try {
        const request = {
          headers: headersWith(bearer),
          body: toWire(call),
          signal,
          connectMs,
          maxBytes: MAX_ANSWER_BYTES,
        }
        answer = await http.post(`${baseUrl}/chat/completions`, request)
      } catch (error) {
        throw error instanceof HttpFailure ? failureOfConnection(error) : error
      }
      return answer.status === 200 ? begin(answer) : await refuse(answer, clock)
    },
  }
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

/** Something answered, but not HTTP: that is a wrong port or a broken server, not one that is away. */
function failureOfConnection(failure: HttpFailure): UpstreamFailure {
  if (failure.code === 'MALFORMED') return faulty('the answer is not HTTP')
  return new UpstreamFailure('unavailable', failure.message, true)
}

function begin(answer: HttpAnswer): ChatAnswer | Promise<ChatAnswer> {
  const encoding = answer.header('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    answer.cancel()
    throw faulty('the answer is compressed, although that was refused')
  }
  const mediaType = (answer.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType === 'text/event-stream') return new StreamedChat(answer)
  if (mediaType === 'application/json') return readWhole(answer)
  answer.cancel()
  throw faulty(`the content type is ${/^[a-z]+\/[a-z.+-]{1,40}$/.test(mediaType ?? '') ? mediaType : 'not known'}`)
}

/** A server that does not stream: its completion has the same content, in `message` instead of `delta`. */
async function readWhole(answer: HttpAnswer): Promise<AsyncIterable<ChatEvent>> {
  const { text, cut } = await readText(answer, MAX_JSON_BYTES)
  if (cut) throw faulty('the JSON answer is too long')
  const progress = { begun: false, finished: false }
  const events: ChatEvent[] = []
  eventsFromWire(text, progress, events)
  if (!progress.finished) throw faulty('the JSON answer has no finish_reason')
  return inOrder(events)
}

async function* inOrder(events: readonly ChatEvent[]): AsyncIterable<ChatEvent> {
  yield* events
}

async function refuse(answer: HttpAnswer, clock: Clock): Promise<never> {
  const { text } = await readText(answer, MAX_ERROR_BYTES)
  throw failureOfStatus(answer.status, text, retryAfterFromWire(answer.header('retry-after'), clock.now()))
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
