/**
 * Reads HTTP/1.1 messages off a raw socket, just well enough for loopback measurements. Both ends of the bench (mock
 * and driver) sit on it, because a full HTTP stack there would cost more than the gateways that are measured.
 */

const HEAD_END = Buffer.from('\r\n\r\n')
/** A head beyond this is nonsense from a gateway; it also bounds what is kept while a head is incomplete. */
const HEAD_LIMIT_BYTES = 65_536

interface Framing {
  /** Bytes of body still to come; null while a chunked body is read. */
  remaining: number | null
}

export interface MessageHandler {
  /** The start line and headers as one latin1 string, without the empty line. */
  onHead(head: string): void
  /** A piece of the body, with any chunked framing taken off. Valid only during the call. */
  onBody(piece: Buffer): void
  /** The message is complete. */
  onEnd(): void
}

/** An incremental reader of consecutive messages on one connection. Throws on anything that it can't frame. */
export class MessageReader {
  readonly #handler: MessageHandler
  #pending: Buffer | null = null
  #framing: Framing | null = null
  #chunkRemaining = 0
  #chunkState: 'size' | 'data' | 'data-end' | 'trailer' = 'size'

  constructor(handler: MessageHandler) {
    this.#handler = handler
  }

  /** Takes the next bytes of the connection. */
  push(bytes: Buffer): void {
    let rest = this.#pending === null ? bytes : Buffer.concat([this.#pending, bytes])
    this.#pending = null
    while (rest.length > 0) {
      const used = this.#step(rest)
      if (used === 0) {
        if (rest.length > HEAD_LIMIT_BYTES) throw new Error('a message head or chunk line is endless')
        this.#pending = Buffer.from(rest)
        return
      }
      rest = rest.subarray(used)
    }
  }

  /** Consumes what it can and returns how many bytes that was; 0 asks for more. */
  #step(rest: Buffer): number {
    if (this.#framing === null) return this.#readHead(rest)
    if (this.#framing.remaining === null) return this.#readChunked(rest)
    const length = Math.min(rest.length, this.#framing.remaining)
    this.#framing.remaining -= length
    this.#handler.onBody(rest.subarray(0, length))
    if (this.#framing.remaining === 0) this.#finish()
    return length
  }

  #readHead(rest: Buffer): number {
    const end = rest.indexOf(HEAD_END)
    if (end < 0) return 0
    const head = rest.toString('latin1', 0, end)
    this.#framing = framingOf(head)
    this.#chunkState = 'size'
    this.#handler.onHead(head)
    if (this.#framing.remaining === 0) this.#finish()
    return end + 4
  }

  #readChunked(rest: Buffer): number {
    if (this.#chunkState === 'data') {
      const length = Math.min(rest.length, this.#chunkRemaining)
      this.#chunkRemaining -= length
      this.#handler.onBody(rest.subarray(0, length))
      if (this.#chunkRemaining === 0) this.#chunkState = 'data-end'
      return length
    }
    const end = rest.indexOf('\r\n')
    if (end < 0) return 0
    if (this.#chunkState === 'data-end') {
      this.#chunkState = 'size'
    } else if (this.#chunkState === 'size') {
      this.#chunkRemaining = Number.parseInt(rest.toString('latin1', 0, end), 16)
      if (!(this.#chunkRemaining >= 0)) throw new Error('a chunk has no size')
      this.#chunkState = this.#chunkRemaining === 0 ? 'trailer' : 'data'
    } else if (end === 0) {
      this.#finish()
    }
    return end + 2
  }

  #finish(): void {
    this.#framing = null
    this.#handler.onEnd()
  }
}

function framingOf(head: string): Framing {
  const lower = head.toLowerCase()
  const at = lower.indexOf('\r\ncontent-length:')
  if (at >= 0) {
    const remaining = Number.parseInt(lower.slice(at + 17), 10)
    if (!(remaining >= 0)) throw new Error('a message has a faulty content-length')
    return { remaining }
  }
  return { remaining: lower.includes('\r\ntransfer-encoding: chunked') ? null : 0 }
}
