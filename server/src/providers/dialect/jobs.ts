/** Work that a provider does behind its answer: jobs that are asked about, and files that are fetched. */

import { type Http, type HttpAnswer, HttpBodyTooLarge, HttpFailure } from '../../infra/httpClient.ts'
import type { Clock } from '../../lib/time.ts'
import { BLOCK_BYTES, ByteBlocks } from './byteBlocks.ts'
import { faulty, retryAfterFromWire } from './failure.ts'
import { asObject, type JsonObject } from './json.ts'
import { ProviderFailure } from './spec.ts'
import { ERROR_MOST_BYTES } from './streamed.ts'
import { readSome, toFailure, UNKNOWN_STATUS, withoutFailover } from './whole.ts'

/** Bytes of what a server says of a job. */
export const JOB_MOST_BYTES = 1 << 20
/** Of a file; whoever takes it has a narrower bound. */
const FILE_MOST_BYTES = 2 ** 40
/** Ids that can be part of a path, and of a row. `.` and `..` would lead to another path. */
const JOB_ID = /^(?!\.{1,2}$)[A-Za-z0-9._:-]{1,200}$/

export interface JobRequest {
  readonly url: string
  /** All of them, names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  readonly connectMs: number
  /** A status that is no success, with the (bounded) text of its body. */
  readonly failureOfStatus: (status: number, body: string, retryAfterSeconds: number | null) => ProviderFailure
}

/** A server's answer. `document` is null where the status is no success. */
export interface JobAnswer {
  readonly status: number
  readonly document: JsonObject | null
}

/**
 * Sends a request with an answer in JSON. A status among `taken` is for the caller to understand; every other one that is no
 * success is a failure. After a POST whose outcome nobody knows, no other target may be asked. Throws {@link ProviderFailure}, or
 * the signal's reason after an abort.
 */
export async function askJob(
  http: Http,
  clock: Clock,
  method: 'GET' | 'POST' | 'DELETE',
  request: JobRequest & { readonly body?: string; readonly maxBytes?: number },
  taken: readonly number[] = [],
): Promise<JobAnswer> {
  const isRepeatable = method === 'GET'
  const { maxBytes = JOB_MOST_BYTES, body = '' } = request
  try {
    const answer = await (method === 'POST'
      ? http.post(request.url, { ...request, body, maxBytes })
      : http.send(method, request.url, { ...request, maxBytes, mayRepeat: isRepeatable }))
    if (taken.includes(answer.status)) {
      answer.cancel()
      return { status: answer.status, document: null }
    }
    if (!isSuccess(answer.status)) throw await refusalOf(answer, clock, request, isRepeatable)
    const text = await readText(answer)
    return { status: answer.status, document: text.trim() === '' ? {} : objectOf(text) }
  } catch (error) {
    // An answer that breaks off is fetched again if that is safe; half of it says nothing.
    throw toFailure(error, isRepeatable, false)
  }
}

const isSuccess = (status: number) => status >= 200 && status < 300

async function refusalOf(
  answer: HttpAnswer,
  clock: Clock,
  request: JobRequest,
  isRepeatable: boolean,
): Promise<ProviderFailure> {
  const text = Buffer.concat(await readSome(answer, ERROR_MOST_BYTES)).toString()
  const retryAfter = retryAfterFromWire(answer.header('retry-after'), clock.now())
  const failure = request.failureOfStatus(answer.status, text, retryAfter)
  return isRepeatable || !UNKNOWN_STATUS.has(answer.status) ? failure : withoutFailover(failure)
}

/** The client throws where more comes than it was told. */
async function readText(answer: HttpAnswer): Promise<string> {
  const blocks = new ByteBlocks()
  for (let piece = await answer.read(); piece !== null; piece = await answer.read()) blocks.add(piece)
  return Buffer.concat(blocks.take()).toString()
}

function objectOf(text: string): JsonObject {
  try {
    const document = asObject(JSON.parse(text))
    if (document !== null) return document
  } catch {
    // Said below.
  }
  throw faulty('the answer is no JSON object')
}

/** A job's id as the server gave it. Throws `faulty` for what can't be one. */
export function jobIdFrom(value: unknown): string {
  if (typeof value === 'string' && JOB_ID.test(value)) return value
  throw faulty('the answer has no id of a job')
}

/**
 * Fetches a file. Resolves when it has begun to come, in pieces that have memory of their own; who stops taking them stops the
 * server. Throws {@link ProviderFailure}, also in the midst of it, or the signal's reason after an abort.
 */
export async function fetchFile(http: Http, clock: Clock, request: JobRequest): Promise<AsyncIterable<Uint8Array>> {
  let answer: HttpAnswer
  try {
    answer = await http.send('GET', request.url, { ...request, maxBytes: FILE_MOST_BYTES, mayRepeat: true })
    if (answer.status !== 200) throw await refusalOf(answer, clock, request, true)
  } catch (error) {
    throw toFailure(error, true, false)
  }
  const encoding = answer.header('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    answer.cancel()
    throw faulty('the file is compressed, although that was refused')
  }
  return piecesOf(answer)
}

async function* piecesOf(answer: HttpAnswer): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let piece = await answer.read(); piece !== null; piece = await answer.read()) yield* withReady(answer, piece)
  } catch (error) {
    if (error instanceof HttpFailure) throw new ProviderFailure('unavailable', `the file broke off: ${error.code}`)
    if (error instanceof HttpBodyTooLarge) throw new ProviderFailure('too_large', 'the file is too large')
    throw error
  } finally {
    answer.cancel()
  }
}

/** A piece and those that are here behind it, together: each that is handed on is written by itself, and has a deadline of its own. */
function withReady(answer: HttpAnswer, first: Uint8Array): Uint8Array[] {
  const blocks = new ByteBlocks()
  let piece: Uint8Array | undefined = first
  while (piece !== undefined) {
    blocks.add(piece)
    piece = blocks.byteLength < BLOCK_BYTES ? answer.ready?.() : undefined
  }
  return blocks.take()
}
