/** Calls whose answer is one JSON document: what every dialect over HTTP does alike. */

import { type Http, type HttpAnswer, HttpBodyTooLarge, HttpFailure } from '../../infra/httpClient.ts'
import { BudgetFull, LARGE_BYTES, type MemoryReservation } from '../../lib/byteBudget.ts'
import type { Clock } from '../../lib/time.ts'
import { ByteBlocks } from './byteBlocks.ts'
import { retryAfterFromWire } from './failure.ts'
import { NoMemoryLeft, ProviderFailure } from './spec.ts'
import { chatHeaders, ERROR_MOST_BYTES } from './streamed.ts'

/** While it is worked on, an answer is there twice: as it came, and as text. */
const WORK_FACTOR = 2

/**
 * The part of the most that an answer may have, for which one of unknown length takes memory at first. Few are longer. For all of
 * it, each would take the whole budget, and wait until nobody else has any.
 */
const UNANNOUNCED_PART = 1 / 4

export interface WholePost {
  readonly url: string
  /** The complete headers, names in lower case; nothing is added. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
  readonly connectMs: number
  /** Of the answer; one that has more is `too_large`, where it announces its length before any of it is read. */
  readonly maxBytes: number
  /** The memory that a large answer is read into. */
  readonly memory: MemoryReservation
  /** The request may be done twice without harm: where nobody knows whether it was, it may be sent again or another target asked. */
  readonly isRepeatable: boolean
  /** A status that is no success, with the (bounded) text of its body. */
  readonly failureOfStatus: (status: number, body: string, retryAfterSeconds: number | null) => ProviderFailure
  readonly onWritten?: (() => void) | undefined
}

/** The headers of every call: the operator's own, and ours, which they can't replace. All names in lower case. */
export function wholeHeaders(
  own: Readonly<Record<string, string>>,
  bearer: string | null,
): Readonly<Record<string, string>> {
  const bearing = bearer === null ? {} : { authorization: `Bearer ${bearer}` }
  return { ...chatHeaders(own), ...bearing, accept: 'application/json' }
}

/** Statuses of proxies that stand for "nobody knows what became of it"; 520 and 524 are Cloudflare's. */
export const UNKNOWN_STATUS = new Set([502, 504, 520, 524])

/**
 * Sends it and reads the whole answer, in pieces that each have a buffer to themselves: to put a large one together takes time
 * that others wait. Throws {@link ProviderFailure}, or the signal's reason after an abort.
 */
export async function postForWhole(http: Http, clock: Clock, post: WholePost): Promise<Uint8Array<ArrayBuffer>[]> {
  const { url, failureOfStatus, isRepeatable, memory, ...request } = post
  let hasBegun = false
  try {
    const answer = await http.post(url, { ...request, mayRepeat: isRepeatable })
    if (answer.status !== 200) {
      const text = Buffer.concat(await readSome(answer, ERROR_MOST_BYTES)).toString()
      const failure = failureOfStatus(
        answer.status,
        text,
        retryAfterFromWire(answer.header('retry-after'), clock.now()),
      )
      throw isRepeatable || !UNKNOWN_STATUS.has(answer.status) ? failure : withoutFailover(failure)
    }
    refuseOther(answer, post.maxBytes)
    return await readPieces(answer, post, () => {
      hasBegun = true
    })
  } catch (error) {
    throw toFailure(error, isRepeatable, hasBegun)
  }
}

/**
 * Turns an error of a call into a failure; the reason of an abort stays as it is. `hasBegun`: some of the answer had
 * come.
 */
export function toFailure(error: unknown, isRepeatable: boolean, hasBegun: boolean): unknown {
  if (error instanceof HttpBodyTooLarge) return tooLarge()
  if (error instanceof BudgetFull) return new NoMemoryLeft()
  if (!(error instanceof HttpFailure)) return error
  // Something answered, but not HTTP: that is a wrong port or a broken server, not one that is away.
  if (error.code === 'MALFORMED') return new ProviderFailure('faulty', 'the answer is not HTTP')
  return new ProviderFailure(
    // Broken off before anything had come, it is a failed connection; later it is half an answer.
    hasBegun ? 'faulty' : 'unavailable',
    error.message,
    { mayFailOver: isRepeatable || !error.outcomeUnknown, mayAskAgain: !error.outcomeUnknown },
  )
}

/** The same failure, after which nobody else is asked. */
export function withoutFailover(failure: ProviderFailure): ProviderFailure {
  return new ProviderFailure(failure.kind, failure.message, {
    retryAfterSeconds: failure.retryAfterSeconds,
    publicMessage: failure.publicMessage,
  })
}

/** Refuses, before any of the body is read, what is no JSON, what is compressed, and what is announced as too long. */
function refuseOther(answer: HttpAnswer, maxBytes: number): void {
  const encoding = answer.header('content-encoding')
  const mediaType = (answer.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  let failure: ProviderFailure | null = null
  if (encoding !== null && encoding !== 'identity') {
    failure = new ProviderFailure('faulty', 'the answer is compressed, although that was refused')
  } else if (mediaType !== 'application/json') {
    failure = new ProviderFailure('faulty', 'the content type is not JSON')
  } else if (announcedBytes(answer) > maxBytes) failure = tooLarge()
  if (failure === null) return
  answer.cancel()
  throw failure
}

function tooLarge(): ProviderFailure {
  return new ProviderFailure('too_large', 'the answer has more bytes than one request may get')
}

/** The body as it comes; what is beyond `mostBytes` is cut off. */
export async function readSome(answer: HttpAnswer, mostBytes: number): Promise<Uint8Array[]> {
  const blocks = new ByteBlocks()
  for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read()) {
    if (blocks.byteLength + bytes.byteLength > mostBytes) {
      answer.cancel()
      break
    }
    blocks.add(bytes)
  }
  return blocks.take()
}

/**
 * The whole body, in pieces. A large one waits for its memory before more of it is read: the server's own, and the kernel's
 * buffers, hold it meanwhile. Throws {@link HttpBodyTooLarge} or {@link BudgetFull}.
 */
async function readPieces(
  answer: HttpAnswer,
  { maxBytes, memory, signal }: Pick<WholePost, 'maxBytes' | 'memory' | 'signal'>,
  onBegun: () => void,
): Promise<Uint8Array<ArrayBuffer>[]> {
  const blocks = new ByteBlocks()
  const announced = announcedBytes(answer)
  let length = 0
  let memoryBytes = 0
  try {
    for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read()) {
      length += bytes.byteLength
      onBegun()
      if (length > maxBytes) throw new HttpBodyTooLarge(maxBytes)
      blocks.add(bytes)
      if (Math.max(announced, length) <= LARGE_BYTES) continue
      if (memoryBytes === 0) {
        memoryBytes = WORK_FACTOR * (announced > 0 ? announced : maxBytes * UNANNOUNCED_PART)
        await memory.take(memoryBytes, signal)
      } else if (WORK_FACTOR * length > memoryBytes) {
        // Without waiting: two calls that each waited for a little more would wait for each other.
        memoryBytes *= 2
        memory.set(memoryBytes)
      }
    }
  } catch (error) {
    answer.cancel()
    throw error
  }
  if (memoryBytes > 0) memory.set(WORK_FACTOR * length)
  return blocks.take()
}

/** 0 where the server does not say. */
function announcedBytes(answer: HttpAnswer): number {
  const length = Number(answer.header('content-length') ?? '0')
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}
