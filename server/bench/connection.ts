/** The driver's end of one keep-alive connection: one call at a time, checked for being a whole and good answer. */
import type { Socket } from 'bun'
import { MessageReader } from './framing.ts'

const CONNECT_DEADLINE_MS = 5_000

/** How a call ended. `error` is null for a whole answer with status 200. */
export interface CallOutcome {
  readonly error: string | null
}

export interface CallHandler {
  /** A piece of the answer's body as it arrives. Valid only during the call. */
  onBody?(piece: Buffer): void
  onEnd(outcome: CallOutcome): void
}

/** One HTTP/1.1 client connection to loopback. Reconnects by itself when the server closed it between two calls. */
export class ClientConnection {
  readonly #port: number
  #socket: Socket<undefined> | null = null
  #handler: CallHandler | null = null
  #status = ''
  #bodyTail = ''
  #unsent: Buffer | null = null

  constructor(port: number) {
    this.#port = port
  }

  /** Sends `request` (a whole HTTP message). `handler.onEnd` is called exactly once. */
  call(request: Buffer, handler: CallHandler): void {
    if (this.#handler !== null) throw new Error('a connection carries one call at a time')
    this.#handler = handler
    this.#status = ''
    this.#bodyTail = ''
    if (this.#socket !== null) {
      this.#write(request)
      return
    }
    this.#connect().then(
      () => this.#write(request),
      (error: unknown) => this.#end(`connect: ${error instanceof Error ? error.message : String(error)}`),
    )
  }

  /** Closes the connection; an open call ends with an error. */
  close(): void {
    this.#socket?.end()
    this.#lost('closed by the driver')
  }

  async #connect(): Promise<void> {
    const reader = new MessageReader({
      onHead: (head) => {
        this.#status = head.slice(9, 12)
      },
      onBody: (piece) => this.#onBody(piece),
      onEnd: () => this.#end(this.#judge()),
    })
    const deadline = setTimeout(() => this.#lost('no connection within the deadline'), CONNECT_DEADLINE_MS)
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: this.#port,
      socket: {
        open: (opened) => {
          opened.setNoDelay(true)
        },
        data: (_, bytes) => {
          try {
            reader.push(bytes)
          } catch (error) {
            this.#socket?.terminate()
            this.#lost(String(error))
          }
        },
        drain: () => {
          if (this.#unsent !== null) this.#write(Buffer.alloc(0))
        },
        close: () => this.#lost('the connection was closed before the answer was whole'),
        error: (_, error) => this.#lost(error.message),
      },
    }).finally(() => clearTimeout(deadline))
    this.#socket = socket
  }

  #onBody(piece: Buffer): void {
    const text = piece.toString('latin1', Math.max(0, piece.length - 400), piece.length)
    this.#bodyTail = piece.length >= 400 ? text : (this.#bodyTail + text).slice(-400)
    this.#handler?.onBody?.(piece)
  }

  /** An answer is good when its status is 200 and its end is the end of a completion, streamed or not. */
  #judge(): string | null {
    if (this.#status !== '200') return `status ${this.#status}: ${this.#bodyTail.slice(0, 300)}`
    const whole = this.#bodyTail.includes('data: [DONE]') || this.#bodyTail.includes('"total_tokens"')
    return whole ? null : `not a whole completion: …${this.#bodyTail.slice(-200)}`
  }

  #write(bytes: Buffer): void {
    const all = this.#unsent === null ? bytes : Buffer.concat([this.#unsent, bytes])
    const sent = Math.max(0, this.#socket?.write(all) ?? 0)
    this.#unsent = sent < all.length ? all.subarray(sent) : null
  }

  #lost(reason: string): void {
    this.#socket = null
    this.#unsent = null
    this.#end(reason)
  }

  #end(error: string | null): void {
    const handler = this.#handler
    if (handler === null) return
    this.#handler = null
    handler.onEnd({ error })
  }
}
