import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Turns } from './turns.ts'

/** Nothing in the interface nests deeper than four; the parser's stack must not be the limit. */
const DEPTH_LIMIT = 64

const DECODERS = { gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate' } as const

function tooLarge(limitBytes: number): Refusal {
  return refusal('request_too_large', `The request body is larger than ${limitBytes} bytes, the most taken here.`)
}

/** Refuses by the announced length, before a key is looked at. Null: it may be read. */
export function refuseAnnouncedLength(headers: Headers, limitBytes: number): Refusal | null {
  const announced = headers.get('Content-Length')
  return announced !== null && Number(announced) > limitBytes ? tooLarge(limitBytes) : null
}

/**
 * Reads a whole body, decompressed, of at most `limitBytes`; refused while reading beyond that. A body that can't be
 * read (cut off, corrupt compression) is refused as `invalid_request`.
 */
export async function readBody(request: Request, limitBytes: number): Promise<Result<Uint8Array>> {
  const encoding = request.headers.get('Content-Encoding')?.toLowerCase() ?? 'identity'
  try {
    if (encoding === 'identity') {
      // With an announced length the server has bounded what arrives; without one it is counted here.
      if (request.headers.has('Content-Length')) return ok(new Uint8Array(await request.arrayBuffer()))
      return request.body === null ? ok(new Uint8Array()) : await readCounted(request.body, limitBytes)
    }
    const format = DECODERS[encoding as keyof typeof DECODERS]
    if (format === undefined) {
      const known = Object.keys(DECODERS).join(', ')
      return refused(
        refusal('invalid_request', `Content-Encoding '${encoding.slice(0, 32)}' is not taken; use ${known}, or none.`),
      )
    }
    if (request.body === null) return ok(new Uint8Array())
    return await readCounted(request.body.pipeThrough(new DecompressionStream(format)), limitBytes)
  } catch {
    return refused(refusal('invalid_request', 'The request body could not be read to its end. Send it again.'))
  }
}

async function readCounted(stream: ReadableStream<Uint8Array>, limitBytes: number): Promise<Result<Uint8Array>> {
  const reader = stream.getReader()
  const pieces: Uint8Array[] = []
  let length = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.byteLength
    if (length > limitBytes) {
      reader.cancel().catch(() => {})
      return refused(tooLarge(limitBytes))
    }
    pieces.push(value)
  }
  const whole = new Uint8Array(length)
  let offset = 0
  for (const piece of pieces) {
    whole.set(piece, offset)
    offset += piece.byteLength
  }
  return ok(whole)
}

/** Bodies beyond this are parsed in steps; up to it, all of it takes some 2 ms at most. */
const PARSED_AT_ONCE_BYTES = 256 << 10

/**
 * Values that one body may hold, counted by commas: as many as parsing and validating can take without holding up others for
 * long. A conversation of thirty thousand messages has as many.
 */
const VALUES_MOST = 65_536

/** Parses a body as JSON, whatever its Content-Type says (E6). Refused with `invalid_request`. */
export function parseJson(bytes: Uint8Array, turns: Turns): Result<unknown> | Promise<Result<unknown>> {
  if (bytes.byteLength > PARSED_AT_ONCE_BYTES) return parseInSteps(bytes, turns)
  const text = decode(bytes)
  if (typeof text !== 'string') return refused(text)
  const wrong = refuseShape(text)
  return wrong === null ? parse(text) : refused(wrong)
}

async function parseInSteps(bytes: Uint8Array, turns: Turns): Promise<Result<unknown>> {
  const text = await turns.run(() => decode(bytes))
  if (typeof text !== 'string') return refused(text)
  const wrong = await turns.run(() => refuseShape(text))
  if (wrong !== null) return refused(wrong)
  const parsed = await turns.run(() => parse(text))
  // Whoever works with it next has a turn of its own.
  await turns.run(() => {})
  return parsed
}

function decode(bytes: Uint8Array): string | Refusal {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return refusal('invalid_request', 'The request body is not valid UTF-8.')
  }
}

function parse(text: string): Result<unknown> {
  try {
    return ok(JSON.parse(text))
  } catch {
    return refused(refusal('invalid_request', 'The request body is not valid JSON.'))
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Looks at what stands outside of strings, and so at next to nothing of a body that is large for its texts. */
function refuseShape(text: string): Refusal | null {
  if (text.trim() === '') return refusal('invalid_request', 'The request body is empty; send a JSON object.')
  let depth = 0
  let values = 1
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (character === QUOTE) index = endOfString(text, index)
    else if (character === 0x2c) {
      values += 1
      if (values > VALUES_MOST) {
        const advice = `The request body holds more than ${VALUES_MOST} values; send it in parts.`
        return refusal('invalid_request', advice)
      }
    } else if (character === 0x5b || character === 0x7b) {
      depth += 1
      if (depth > DEPTH_LIMIT) {
        return refusal('invalid_request', `The request body nests deeper than ${DEPTH_LIMIT} levels.`)
      }
    } else if (character === 0x5d || character === 0x7d) depth -= 1
  }
  return null
}

/** Where the string that opens at `start` closes; the end of the text where it does not. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
  return text.length
}
