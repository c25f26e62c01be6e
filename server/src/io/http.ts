import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Clock } from '../kernel/time.ts'

/**
 * Outgoing HTTP. Every answer is streamed and bounded; nothing is retried, redirected or decompressed. Deadlines are the
 * caller's: it aborts. Bun itself bounds response headers (it refuses them as malformed before a megabyte has come) and
 * stops reading a socket whose body nobody reads.
 */

/** Why no answer, or no whole answer, came. `code` is the system's or Bun's word, such as `ECONNREFUSED`. */
export class HttpFailure extends Error {
  /** False: no byte of the request can have been acted on. True: nobody knows whether it was. */
  readonly outcomeUnknown: boolean
  readonly code: string

  constructor(code: string, outcomeUnknown: boolean) {
    super(outcomeUnknown ? `the connection failed: ${code}` : `not reached: ${code}`)
    this.name = 'HttpFailure'
    this.code = code
    this.outcomeUnknown = outcomeUnknown
  }
}

/** More bytes came than the caller allowed. */
export class HttpBodyTooLarge extends Error {
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`)
    this.name = 'HttpBodyTooLarge'
  }
}

export interface HttpPost {
  /** The whole set of headers: nothing of an incoming request is ever passed on. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
  /** Bytes of the answer's body after which reading it throws {@link HttpBodyTooLarge}. */
  readonly maxBytes: number
}

export interface HttpAnswer {
  readonly status: number
  header(name: string): string | null
  /**
   * The next bytes, or null at the end. One call at a time. Throws {@link HttpFailure} when the connection breaks,
   * {@link HttpBodyTooLarge}, or the signal's reason.
   */
  read(): Promise<Uint8Array | null>
  /** Stops the answer and closes its connection. May be called at any time, any number of times. */
  cancel(): void
}

export interface Http {
  /** Sends a POST; resolves when the headers of the answer are here. Throws {@link HttpFailure} or the signal's reason. */
  post(url: string, request: HttpPost): Promise<HttpAnswer>
  /** Whether a TCP (for https: TLS) connection to the URL's host opens within `timeoutMs`. Never rejects. */
  canConnect(url: string, timeoutMs: number): Promise<boolean>
}

type Fetch = (url: string, init: RequestInit & { decompress: boolean; timeout: boolean }) => Promise<Response>

/** The HTTP client over Bun's `fetch`. */
export function createHttp(clock: Clock, send: Fetch = fetch): Http {
  return {
    async post(url, { headers, body, signal, maxBytes }) {
      let response: Response
      try {
        // `timeout: false` takes away Bun's own five minutes of silence; `redirect: manual` hands us a 3xx as it is, so
        // that a credential never follows it; undecompressed, a small answer can't grow into a large one.
        response = await send(url, {
          method: 'POST',
          headers,
          body,
          signal,
          redirect: 'manual',
          decompress: false,
          timeout: false,
        })
      } catch (error) {
        throw signal.aborted ? signal.reason : toFailure(error)
      }
      return new StreamedAnswer(response, signal, maxBytes)
    },
    canConnect: (url, timeoutMs) => canConnect(clock, url, timeoutMs),
  }
}

class StreamedAnswer implements HttpAnswer {
  readonly status: number
  private readonly response: Response
  private readonly signal: AbortSignal
  private readonly maxBytes: number
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | null
  private seenBytes = 0

  constructor(response: Response, signal: AbortSignal, maxBytes: number) {
    this.status = response.status
    this.response = response
    this.signal = signal
    this.maxBytes = maxBytes
    this.reader = response.body === null ? null : response.body.getReader()
  }

  header(name: string): string | null {
    return this.response.headers.get(name)
  }

  async read(): Promise<Uint8Array | null> {
    if (this.reader === null) return null
    let result: Awaited<ReturnType<typeof this.reader.read>>
    try {
      result = await this.reader.read()
    } catch (error) {
      throw this.signal.aborted ? this.signal.reason : toFailure(error, true)
    }
    // An abort may also show as a regular end; the caller must never take that for a whole answer.
    if (this.signal.aborted) throw this.signal.reason
    if (result.done) return null
    this.seenBytes += result.value.byteLength
    if (this.seenBytes > this.maxBytes) {
      this.cancel()
      throw new HttpBodyTooLarge(this.maxBytes)
    }
    return result.value
  }

  cancel(): void {
    // A cancelled or already failed reader rejects here; unhandled, that rejection would end the process.
    this.reader?.cancel().catch(ignore)
  }
}

function ignore(): void {}

/** Codes with which no byte of the request has left this machine, or none has arrived at an HTTP server. */
const NOT_REACHED = /^(ECONNREFUSED|ConnectionRefused|FailedToOpenSocket|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH)$/
const TLS_REFUSED = /CERT|SELF_SIGNED|UNABLE_TO|TLS|SSL/

function toFailure(error: unknown, begun = false): HttpFailure {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN'
  return new HttpFailure(code, begun || !(NOT_REACHED.test(code) || TLS_REFUSED.test(code)))
}

function canConnect(clock: Clock, url: string, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const { protocol, hostname, port } = new URL(url)
    const secure = protocol === 'https:'
    const host = hostname.replace(/^\[|\]$/g, '')
    const to = { host, port: Number(port) || (secure ? 443 : 80) }
    // Whether the certificate is good is for the call itself to find out; this asks only whether anyone is there.
    const socket = secure ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to)
    const finish = (connected: boolean) => {
      cancelTimer()
      socket.destroy()
      resolve(connected)
    }
    const cancelTimer = clock.after(timeoutMs, () => finish(false))
    socket.once(secure ? 'secureConnect' : 'connect', () => finish(true))
    socket.on('error', () => finish(false))
  })
}
