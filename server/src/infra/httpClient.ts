/**
 * Outgoing HTTP, as the rest of the gateway sees it. Every answer is streamed and bounded; nothing is redirected or decompressed,
 * and nothing is sent twice but as {@link HttpRequest.mayRepeat} says. Deadlines beyond the connection's are the caller's: it
 * aborts. `httpClient/client.ts` makes one.
 */

import type { Arriving } from '../lib/arriving.ts'
import type { CallSignal } from '../lib/callSignal.ts'

/** Why no answer, or no whole answer, came. `code` is the system's word, such as `ECONNREFUSED`, or `MALFORMED`. */
export class HttpFailure extends Error {
  /** False: no byte of the request can have been acted on. True: nobody knows whether it was. */
  readonly outcomeUnknown: boolean
  readonly code: string

  constructor(code: string, outcomeUnknown: boolean, detail = code) {
    super(outcomeUnknown ? `the connection failed: ${detail}` : `not reached: ${detail}`)
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

/** A request without a body. */
export interface HttpRequest {
  /**
   * The whole set of headers but `host` and `content-length`: nothing of an incoming request is ever passed on. Names in
   * lower case. An object that is used again is written out once.
   */
  readonly headers: Readonly<Record<string, string>>
  readonly signal: CallSignal
  /** How long a new connection, with its TLS handshake, may take; then the call fails as not reached (`ETIMEDOUT`). */
  readonly connectMs: number
  /** The address to connect to, in place of what the URL's host is resolved to; the host stays what TLS and the server see. */
  readonly address?: string
  /**
   * True: a server may act on the request twice without harm. Where a connection that was used before breaks before any byte of
   * the answer, the request is sent once more on a new connection. Otherwise that is done only where no byte was written.
   */
  readonly mayRepeat?: boolean
  /** Bytes of the answer's body after which reading it throws {@link HttpBodyTooLarge}. */
  readonly maxBytes: number
  /**
   * Told when the system has taken the last byte of the request, so that the server may act on all of it. Told once more where
   * the request is sent once more; never after the answer is over.
   */
  readonly onWritten?: (() => void) | undefined
}

export interface HttpPost extends HttpRequest {
  readonly body: string
}

export interface HttpAnswer extends Arriving<Uint8Array> {
  readonly status: number
  /** The header's value, several of one name joined by commas; `name` in lower case. */
  header(name: string): string | null
  /**
   * The next bytes, or null at the end. One call at a time. Throws {@link HttpFailure} when the connection breaks,
   * {@link HttpBodyTooLarge}, or the signal's reason.
   */
  read(): Promise<Uint8Array | null>
  /**
   * The caller has all that it wants, and nothing more is read. Where the body ends within a second, and without another
   * byte, the connection is used again; else it is closed.
   */
  release(): void
  /** Stops the answer and closes its connection. May be called at any time, any number of times. */
  cancel(): void
}

export interface Http {
  /** Sends a POST; resolves when the headers of the answer are here. Throws {@link HttpFailure} or the signal's reason. */
  post(url: string, request: HttpPost): Promise<HttpAnswer>
  /** The same without a body. */
  send(method: 'GET' | 'DELETE', url: string, request: HttpRequest): Promise<HttpAnswer>
  /** Closes the connections that nobody uses. Calls under way go on. */
  close(): void
}
