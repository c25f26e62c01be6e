import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

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

/** Parses a body as JSON, whatever its Content-Type says (E6). Refused with `invalid_request`. */
export function parseJson(bytes: Uint8Array): Result<unknown> {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return refused(refusal('invalid_request', 'The request body is not valid UTF-8.'))
  }
  if (text.trim() === '') return refused(refusal('invalid_request', 'The request body is empty; send a JSON object.'))
  if (isNestedTooDeeply(text)) {
    return refused(refusal('invalid_request', `The request body nests deeper than ${DEPTH_LIMIT} levels.`))
  }
  try {
    return ok(JSON.parse(text))
  } catch {
    return refused(refusal('invalid_request', 'The request body is not valid JSON.'))
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

function isNestedTooDeeply(text: string): boolean {
  let depth = 0
  let inString = false
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (inString) {
      if (character === BACKSLASH) index += 1
      else if (character === QUOTE) inString = false
    } else if (character === QUOTE) inString = true
    else if (character === 0x5b || character === 0x7b) {
      depth += 1
      if (depth > DEPTH_LIMIT) return true
    } else if (character === 0x5d || character === 0x7d) depth -= 1
  }
  return false
}
