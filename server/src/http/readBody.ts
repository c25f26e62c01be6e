/** Reads the bytes of a body, decompressed, within its limit, its deadline and its memory. */

import { type Refusal, refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import { nextTurn } from '../lib/time.ts'
import type { BodyDeadlines } from './bodyDeadline.ts'
import type { BodyWork } from './bodyWork.ts'
import { type Compression, DECODERS, inflate } from './inflate.ts'
import { type BodyReservation, LARGE_BODY_BYTES } from './limits/bodyMemory.ts'

/** Decompressed in a turn of its own, which takes less time than to ask the thread. */
const INFLATED_AT_ONCE_BYTES = 32 << 10

/** To copy so many bytes takes no longer than to parse one of them. */
const COPIED_PER_PARSED = 16

/**
 * Pieces that are read in one turn of the event loop. A client may send each byte as a chunk of its own: all that have come are there
 * at once, and a million of them took seconds. Those that come during a turn are handed over together.
 */
const PIECES_A_TURN = 256

type ReadBytes = Result<Uint8Array<ArrayBuffer>>

function tooLarge(limitBytes: number): Refusal {
  return refusal('request_too_large', `The request body is larger than ${limitBytes} bytes, the limit. Send less.`)
}

const UNREADABLE = refusal('invalid_request', 'The request body could not be read to its end. Send it again.')

const LATE = refusal(
  'invalid_request',
  'The request body did not arrive in time. Send it again over a faster connection, or send less.',
)

const ODD_LENGTH = refusal('invalid_request', 'The Content-Length is no number of bytes. Send it once, in digits.')

/** Refuses by the announced length, before a key is looked at. Null: it may be read. */
export function refuseAnnouncedLength(headers: Headers, limitBytes: number): Refusal | null {
  const announced = headers.get('Content-Length')
  if (announced === null) return null
  // One that is sent twice arrives as a list here, even if both are the same.
  if (!/^\d+$/.test(announced)) return ODD_LENGTH
  return Number(announced) > limitBytes ? tooLarge(limitBytes) : null
}

export interface ReadOptions {
  /** Of the decompressed body. */
  readonly limitBytes: number
  readonly memory: BodyReservation
  readonly deadlines: BodyDeadlines
  readonly work: BodyWork
}

/**
 * Reads a whole body whose announced length was not refused. Refused while it is read: beyond its limit with 413, without memory with
 * 429 or 503, with 429 where others need its memory before it has come, after its deadline or where it can't be read (cut off, corrupt
 * compression) as `invalid_request`. After any of these some of it may still be coming.
 */
export function readBody(request: Request, options: ReadOptions): Promise<ReadBytes> {
  const encoding = request.headers.get('Content-Encoding')?.toLowerCase() ?? 'identity'
  if (encoding === 'identity') return readSent(request, options)
  if (!Object.hasOwn(DECODERS, encoding)) return Promise.resolve(refused(unknownEncoding(encoding)))
  return readInflated(request, options, encoding as Compression)
}

/** Reads the bytes as they were sent. */
function readSent(request: Request, options: ReadOptions): Promise<ReadBytes> {
  const header = request.headers.get('Content-Length')
  const announced = header === null ? null : Number(header)
  // The server sees to it that no more arrives than was announced.
  if (announced !== null && announced <= LARGE_BODY_BYTES) return readSmall(request, announced, options)
  return request.body === null ? NOTHING : readCounted(request.body, announced, options)
}

const NOTHING = Promise.resolve(ok(new Uint8Array()))

/**
 * Reads all of a compressed body before any of it is decompressed: one that never ends takes no more than was sent of it. Those
 * that come to much are decompressed by the thread.
 */
async function readInflated(request: Request, options: ReadOptions, compression: Compression): Promise<ReadBytes> {
  const { limitBytes, memory, work } = options
  const sent = await readSent(request, options)
  if (!sent.ok) return sent
  const mostBytes = Math.min(limitBytes, INFLATED_AT_ONCE_BYTES)
  const isSmall = sent.value.byteLength <= LARGE_BODY_BYTES
  if (isSmall) await work.takeTurn(memory.owner, sent.value.byteLength)
  let inflated = isSmall ? inflate(sent.value, compression, mostBytes) : 'large'
  if (inflated === 'large' && (!isSmall || mostBytes < limitBytes)) {
    inflated = await work.inflate(memory.owner, sent.value, compression, limitBytes)
  }
  if (inflated === 'large') return refused(tooLarge(limitBytes))
  if (inflated === 'corrupt') return refused(UNREADABLE)
  const full = memory.hold(inflated.byteLength)
  return full === null ? ok(inflated) : refused(full)
}

function unknownEncoding(encoding: string): Refusal {
  const known = Object.keys(DECODERS).join(', ')
  return refusal('invalid_request', `Content-Encoding '${encoding.slice(0, 32)}' is not known; use ${known}, or none.`)
}

/**
 * Calls `onEnded`, with the reason, when the body's time is over or others need its memory; the result ends that. Returns a refusal where
 * too many bodies arrive already.
 */
function watchArrival({ memory, deadlines }: ReadOptions, onEnded: (why: Refusal) => void): Refusal | (() => void) {
  const endArrival = memory.arrive(onEnded)
  if (typeof endArrival !== 'function') return endArrival
  const endDeadline = deadlines.begin(() => onEnded(LATE))
  return () => {
    endDeadline()
    endArrival()
  }
}

/** Most bodies: all of it in one go, its memory taken by its announced length. */
function readSmall(request: Request, announcedBytes: number, options: ReadOptions): Promise<ReadBytes> {
  const full = options.memory.hold(announcedBytes)
  if (full !== null) return Promise.resolve(refused(full))
  return new Promise((resolve) => {
    const end = watchArrival(options, (why) => resolve(refused(why)))
    if (typeof end !== 'function') return resolve(refused(end))
    request.arrayBuffer().then(
      (buffer) => {
        end()
        const { limitBytes } = options
        resolve(buffer.byteLength > limitBytes ? refused(tooLarge(limitBytes)) : ok(new Uint8Array(buffer)))
      },
      () => {
        end()
        resolve(refused(UNREADABLE))
      },
    )
  })
}

/** All other bodies: piece by piece. The memory of an announced one is taken before any of it is read. */
function readCounted(
  source: ReadableStream<Uint8Array>,
  announced: number | null,
  options: ReadOptions,
): Promise<ReadBytes> {
  const full = announced === null ? null : options.memory.hold(announced)
  if (full !== null) return Promise.resolve(refused(full))
  const reader = source.getReader()
  const stop = () => void reader.cancel().catch(() => {})
  return new Promise((resolve) => {
    const end = watchArrival(options, (why) => {
      resolve(refused(why))
      stop()
    })
    if (typeof end !== 'function') {
      stop()
      return resolve(refused(end))
    }
    const collecting = collect(reader, announced, options)
    collecting
      .then(resolve, () => resolve(refused(UNREADABLE)))
      .finally(() => {
        end()
        stop()
      })
  })
}

async function collect(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  announced: number | null,
  { limitBytes, memory, work }: ReadOptions,
): Promise<ReadBytes> {
  // Without the zeros of a new ArrayBuffer, which take some milliseconds: no more of it is shown than was written.
  let buffer = announced === null ? new ArrayBuffer(0) : Buffer.allocUnsafeSlow(announced).buffer
  let length = 0
  let pieces = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const needed = length + read.value.byteLength
    if (needed > limitBytes) return refused(tooLarge(limitBytes))
    if (needed > buffer.byteLength) {
      const roomy = Math.min(Math.max(2 * buffer.byteLength, needed, LARGE_BODY_BYTES), limitBytes)
      const full = memory.hold(roomy)
      if (full !== null) return refused(full)
      // Unlike a copy, it gives the memory of the smaller one back at once.
      buffer = buffer.transfer(roomy)
    }
    new Uint8Array(buffer).set(read.value, length)
    length = needed
    // A body that has come already is read without an end of the turn.
    const turn = work.takeTurn(memory.owner, read.value.byteLength / COPIED_PER_PARSED)
    if (turn !== null) await turn
    pieces += 1
    if (pieces % PIECES_A_TURN === 0) await nextTurn()
  }
  memory.hold(length)
  return ok(new Uint8Array(buffer, 0, length))
}
