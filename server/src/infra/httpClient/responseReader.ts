/** Bytes of a response's head, of all its trailers, and of the line before a chunk: beyond these it is no answer. */
const MAX_HEAD_BYTES = 64 << 10
const MAX_CHUNK_LINE_BYTES = 1 << 10

const HEAD_END = Buffer.from('\r\n\r\n')
const LINE_END = Buffer.from('\r\n')
const NO_BYTES = Buffer.alloc(0)
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?$/
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Ends of lines that not every reader takes for one. */
const UNSAFE_IN_HEAD = /\0|\r(?!\n)|(?<!\r)\n/
const CHUNK_LINE = /^([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?$/
const CHUNK_DIGITS_MOST = 8
const LENGTH = /^\d{1,15}$/

/** A response's status and headers; names in lower case. */
export interface ResponseHead {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  /** The connection may carry another exchange after this one, as far as the head says. */
  readonly keepsAlive: boolean
}

export interface ResponseParts {
  head(head: ResponseHead): void
  /** A piece of the body, its framing taken off; shares memory with what was pushed. */
  body(piece: Uint8Array): void
  /** The response is whole. Nothing more of it comes. */
  end(): void
}

/** The bytes are not a response of HTTP/1.1. */
export class MalformedResponse extends Error {
  constructor(detail: string) {
    super(`the answer is not HTTP: ${detail}`)
    this.name = 'MalformedResponse'
  }
}

/**
 * Takes the bytes of one response to a GET, POST or DELETE as they come (RFC 9112), strictly: what two readers could understand in two
 * ways is refused. Interim responses (1xx) are passed over.
 */
export class ResponseReader {
  private readonly parts: ResponseParts
  /** Bytes that wait for more of them, at the front of their room. */
  private pendingBytes = 0
  private room: Buffer = NO_BYTES
  /** Takes what it can of the bytes; 0 asks for more of them. It was asked in vain for the first `seenBytes` of them. */
  private take: (bytes: Buffer, seenBytes: number) => number = this.takeHead
  private remainingBytes = 0
  private headBytes = 0
  private isOver = false

  constructor(parts: ResponseParts) {
    this.parts = parts
  }

  /** Takes the next bytes; returns true when any are left over after the response. Throws {@link MalformedResponse}. */
  push(bytes: Buffer): boolean {
    let seenBytes = this.pendingBytes
    let rest = seenBytes === 0 ? bytes : this.appended(bytes)
    this.pendingBytes = 0
    while (rest.length > 0) {
      if (this.isOver) return true
      const taken = this.take(rest, seenBytes)
      if (taken === 0) {
        // Not enough to go on. Copied once: a piece of a few bytes must not keep the whole read alive.
        if (seenBytes === 0) this.room = Buffer.from(rest)
        this.pendingBytes = rest.length
        return false
      }
      rest = rest.subarray(taken)
      seenBytes = 0
    }
    this.room = NO_BYTES
    return false
  }

  /** Returns all that is pending with the next bytes behind it. The room doubles, so that no byte is copied for each that follows. */
  private appended(bytes: Buffer): Buffer {
    const length = this.pendingBytes + bytes.length
    if (length > this.room.length) {
      const room = Buffer.allocUnsafe(Math.max(length, 2 * this.room.length))
      this.room.copy(room, 0, 0, this.pendingBytes)
      this.room = room
    }
    bytes.copy(this.room, this.pendingBytes)
    return this.room.subarray(0, length)
  }

  /** The other side will send no more: whether the response is whole. */
  endOfInput(): boolean {
    if (this.isOver) return true
    if (this.take !== this.takeUntilClose) return false
    this.finish()
    return true
  }

  private takeHead(bytes: Buffer, seenBytes: number): number {
    const end = placeOf(HEAD_END, bytes, seenBytes)
    if (end < 0 ? bytes.length > MAX_HEAD_BYTES : end > MAX_HEAD_BYTES)
      throw new MalformedResponse('its head is endless')
    if (end < 0) {
      // Told apart early: what begins otherwise may never send an empty line.
      if (!'HTTP/1.'.startsWith(bytes.toString('latin1', 0, 7))) throw new MalformedResponse('it begins otherwise')
      return 0
    }
    this.headBytes += end
    if (this.headBytes > MAX_HEAD_BYTES) throw new MalformedResponse('its heads are endless')
    const fields = remembered(bytes.toString('latin1', 0, end))
    if (fields.status >= 200) this.begin(fields)
    return end + HEAD_END.length
  }

  private begin({ status, isCurrent, headers }: HeadFields): void {
    const coding = headers.get('transfer-encoding')
    const length = lengthOf(headers.get('content-length'))
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') throw new MalformedResponse('its transfer encoding')
    const isEmpty = status === 204 || status === 304
    const isUntilClose = !isEmpty && coding === undefined && length === null
    const connection = headers.get('connection')?.toLowerCase() ?? ''
    const asks = isCurrent ? !/\bclose\b/.test(connection) : /\bkeep-alive\b/.test(connection)
    // Both framings at once are how one response is passed off as two; the chunks count, and nothing follows them.
    const isAmbiguous = coding !== undefined && length !== null
    this.parts.head({ status, headers, keepsAlive: asks && !isUntilClose && !isAmbiguous })
    if (isEmpty) this.finish()
    else if (coding !== undefined) this.take = this.takeChunkLine
    else if (length === null) this.take = this.takeUntilClose
    else if (length === 0) this.finish()
    else {
      this.remainingBytes = length
      this.take = this.takeSized
    }
  }

  private takeSized(bytes: Buffer): number {
    const taken = this.takeBody(bytes)
    if (this.remainingBytes === 0) this.finish()
    return taken
  }

  private takeUntilClose(bytes: Buffer): number {
    this.parts.body(bytes)
    return bytes.length
  }

  private takeChunkLine(bytes: Buffer, seenBytes: number): number {
    const end = lineEnd(bytes, seenBytes, MAX_CHUNK_LINE_BYTES)
    if (end < 0) return 0
    this.remainingBytes = chunkLength(bytes, end)
    this.take = this.remainingBytes === 0 ? this.takeTrailer : this.takeChunk
    return end + LINE_END.length
  }

  private takeChunk(bytes: Buffer): number {
    const taken = this.takeBody(bytes)
    if (this.remainingBytes === 0) this.take = this.takeChunkEnd
    return taken
  }

  private takeChunkEnd(bytes: Buffer): number {
    if (bytes.length < LINE_END.length) return 0
    if (bytes[0] !== 0x0d || bytes[1] !== 0x0a) throw new MalformedResponse('the end of a chunk')
    this.take = this.takeChunkLine
    return LINE_END.length
  }

  /** Trailers say nothing that anybody here asks for. */
  private takeTrailer(bytes: Buffer, seenBytes: number): number {
    const end = lineEnd(bytes, seenBytes, MAX_HEAD_BYTES)
    if (end < 0) return 0
    this.headBytes += end
    if (this.headBytes > MAX_HEAD_BYTES) throw new MalformedResponse('its trailers are endless')
    if (end === 0) this.finish()
    return end + LINE_END.length
  }

  private takeBody(bytes: Buffer): number {
    const taken = Math.min(bytes.length, this.remainingBytes)
    this.remainingBytes -= taken
    this.parts.body(bytes.subarray(0, taken))
    return taken
  }

  private finish(): void {
    this.isOver = true
    this.parts.end()
  }
}

/** Returns where an end first stands, of which the first `seenBytes` hold a part at most; -1 when it has not come. */
function placeOf(end: Buffer, bytes: Buffer, seenBytes: number): number {
  return bytes.indexOf(end, Math.max(0, seenBytes - end.length + 1))
}

/** Returns where the first line ends, which is not within the first `seenBytes`; -1 when that has not come. */
function lineEnd(bytes: Buffer, seenBytes: number, maxBytes: number): number {
  const end = placeOf(LINE_END, bytes, seenBytes)
  if (end < 0 ? bytes.length > maxBytes : end > maxBytes) throw new MalformedResponse('an endless line')
  return end
}

/** The length that the line before a chunk says, which ends at `end`. */
function chunkLength(bytes: Buffer, end: number): number {
  let length = 0
  for (let index = 0; index < end; index += 1) {
    const digit = hexDigit(bytes[index] ?? 0)
    if (digit < 0 || index === CHUNK_DIGITS_MOST) return lengthBeforeExtension(bytes.toString('latin1', 0, end))
    length = length * 16 + digit
  }
  if (end === 0) throw new MalformedResponse('the length of a chunk')
  return length
}

/** Few servers write blanks or an extension after a length. */
function lengthBeforeExtension(line: string): number {
  const match = CHUNK_LINE.exec(line)
  if (match === null) throw new MalformedResponse('the length of a chunk')
  return Number.parseInt(match[1] ?? '', 16)
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** The text of a head, taken apart. */
interface HeadFields {
  readonly status: number
  /** It is of HTTP/1.1, and not of 1.0. */
  readonly isCurrent: boolean
  readonly headers: ReadonlyMap<string, string>
}

/**
 * The last head of each length, modulo their number. A server writes the same one with each answer, but for the second of its date; one
 * that gives each answer an id of its own costs no more for it.
 */
const LAST_HEADS: { readonly text: string; readonly fields: HeadFields }[] = []
const LAST_HEADS_MOST = 64
/** A longer one is no server's usual. */
const REMEMBERED_MOST_CHARACTERS = 1 << 10

function remembered(text: string): HeadFields {
  const place = text.length % LAST_HEADS_MOST
  const last = LAST_HEADS[place]
  if (last?.text === text) return last.fields
  const fields = fieldsOf(text)
  if (text.length <= REMEMBERED_MOST_CHARACTERS) LAST_HEADS[place] = { text, fields }
  return fields
}

function fieldsOf(text: string): HeadFields {
  if (UNSAFE_IN_HEAD.test(text)) throw new MalformedResponse('a header')
  const [statusLine = '', ...lines] = text.split('\r\n')
  const match = STATUS_LINE.exec(statusLine)
  if (match === null) throw new MalformedResponse('its status line')
  const status = Number(match[2])
  if (status === 101) throw new MalformedResponse('it changes the protocol')
  return { status, isCurrent: match[1] === '1', headers: headersOf(lines) }
}

function headersOf(lines: readonly string[]): ReadonlyMap<string, string> {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0))
    const value = trimmed(line, colon + 1)
    // Folded lines are among what is refused; the standard has withdrawn them.
    if (!HEADER_NAME.test(name)) throw new MalformedResponse('a header')
    const lower = name.toLowerCase()
    const before = headers.get(lower)
    headers.set(lower, before === undefined ? value : `${before}, ${value}`)
  }
  return headers
}

/**
 * The line from a place on, without blanks around it. No expression: one that leaves blanks out at both ends tries every
 * split of a long run of them, and a server could keep this process busy for hours with one header.
 */
function trimmed(line: string, from: number): string {
  let start = from
  let end = line.length
  while (start < end && isBlank(line.charCodeAt(start))) start += 1
  while (end > start && isBlank(line.charCodeAt(end - 1))) end -= 1
  return line.slice(start, end)
}

const isBlank = (code: number) => code === 0x20 || code === 0x09

/** The announced length; null for none. Several that agree are one. */
function lengthOf(value: string | undefined): number | null {
  if (value === undefined) return null
  const [first = '', ...others] = value.split(/, ?/)
  if (!LENGTH.test(first) || others.some((other) => other !== first)) throw new MalformedResponse('its length')
  return Number(first)
}
