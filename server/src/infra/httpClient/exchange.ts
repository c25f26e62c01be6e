import type { CallSignal } from '../../lib/callSignal.ts'
import { type HttpAnswer, HttpBodyTooLarge, HttpFailure, type HttpRequest } from '../httpClient.ts'
import { MalformedResponse, type ResponseHead, type ResponseParts, ResponseReader } from './responseReader.ts'

/** Memory of what waits for a slow reader; beyond it the socket is not read. */
const MAX_WAITING_BYTES = 64 << 10
/** Memory that a piece takes beside its bytes. A stream of tokens comes in pieces of some hundred bytes. */
const PIECE_BYTES = 512

/** The connection beneath an exchange. */
export interface Line {
  /** Stops or goes on reading the socket. */
  setPaused(paused: boolean): void
  /** The exchange is over; the connection may carry another one only if `reusable`. Called once. */
  over(reusable: boolean): void
  /** Nothing more of the body is wanted: gives it a moment to end. */
  expectEnd(): void
}

/** One call and its answer on one connection. */
export class Exchange implements HttpAnswer, ResponseParts {
  /** Resolves when the head is here. */
  readonly begun: Promise<HttpAnswer>
  private readonly line: Line
  private readonly signal: CallSignal
  private readonly maxBytes: number
  private readonly onWritten: (() => void) | undefined
  private readonly reader = new ResponseReader(this)
  private answered: ResponseHead | null = null
  private pieces: Uint8Array[] = []
  private waitingBytes = 0
  private seenBytes = 0
  private isPaused = false
  private isSent = false
  private hasBytes = false
  private isWhole = false
  private isReleased = false
  private isOver = false
  private failure: { readonly reason: unknown } | null = null
  private opening: { resolve(answer: HttpAnswer): void; reject(reason: unknown): void } | null = null
  private waiting: (() => void) | null = null
  private reading: { resolve(piece: Uint8Array | null): void; reject(reason: unknown): void } | null = null

  constructor(line: Line, { signal, maxBytes, onWritten }: HttpRequest) {
    this.line = line
    this.signal = signal
    this.maxBytes = maxBytes
    this.onWritten = onWritten
    this.begun = new Promise((resolve, reject) => {
      this.opening = { resolve, reject }
    })
    signal.addEventListener('abort', this.onAbort)
  }

  /** Returns whether any byte has come from the server. */
  get isHeard(): boolean {
    return this.hasBytes
  }

  get status(): number {
    return this.answered?.status ?? 0
  }

  header(name: string): string | null {
    return this.answered?.headers.get(name) ?? null
  }

  ready(): Uint8Array | undefined {
    const piece = this.pieces.shift()
    if (piece === undefined) return undefined
    this.waitingBytes -= PIECE_BYTES + piece.byteLength
    if (this.isPaused && this.waitingBytes < MAX_WAITING_BYTES / 2) this.setPaused(false)
    return piece
  }

  whenReady(callback: () => void): boolean {
    if (this.pieces.length > 0 || this.failure !== null || this.isWhole || this.isReleased) return false
    this.waiting = callback
    return true
  }

  read(): Promise<Uint8Array | null> {
    const piece = this.ready()
    if (piece !== undefined) return Promise.resolve(piece)
    if (this.failure !== null) return Promise.reject(this.failure.reason)
    if (this.isWhole || this.isReleased) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.reading = { resolve, reject }
    })
  }

  release(): void {
    if (this.isOver || this.isReleased) return
    this.isReleased = true
    // Bytes that came beyond the caller's end are more than an end.
    if (this.pieces.length > 0) this.cancel()
    else this.line.expectEnd()
  }

  cancel(): void {
    // Once it is over this does nothing; before, a reader that waits sees an end.
    if (!this.finish(false)) return
    this.pieces = []
    this.isReleased = true
    this.reading?.resolve(null)
    this.reading = null
    this.wake()
  }

  /** The system has taken bytes of the request: from here on the server may act on it. */
  sent(): void {
    this.isSent = true
  }

  /** The system has taken the last byte of the request. */
  written(): void {
    if (!this.isOver) this.onWritten?.()
  }

  /** Bytes from the socket. */
  take(bytes: Buffer): void {
    this.hasBytes = true
    try {
      // Extra bytes behind the response do not spoil it, but the connection can't be used again.
      if (this.reader.push(bytes)) this.finish(false)
      else if (this.isWhole) this.finish(this.answered?.keepsAlive === true)
    } catch (error) {
      if (!(error instanceof MalformedResponse)) throw error
      this.fail(new HttpFailure('MALFORMED', true, error.message))
    }
    // All that came in one read is taken together.
    if (this.pieces.length > 0 || this.isWhole) this.wake()
  }

  /** The connection is gone; `code` is null when the other side closed it in order. */
  closed(code: string | null): void {
    if (this.isOver) return
    if (code === null && this.reader.endOfInput()) {
      this.finish(false)
      this.wake()
    } else this.fail(new HttpFailure(code ?? 'ECONNRESET', this.isSent))
  }

  /** Ends it; whoever waits, and every read after what has come already, is rejected with `reason`. */
  fail(reason: unknown): void {
    if (!this.finish(false)) return
    this.failure = { reason }
    this.opening?.reject(reason)
    this.reading?.reject(reason)
    this.opening = null
    this.reading = null
    this.wake()
  }

  head(head: ResponseHead): void {
    this.answered = head
    this.opening?.resolve(this)
    this.opening = null
  }

  body(piece: Uint8Array): void {
    if (this.isOver) return
    this.seenBytes += piece.byteLength
    if (this.isReleased) this.finish(false)
    else if (this.seenBytes > this.maxBytes) this.fail(new HttpBodyTooLarge(this.maxBytes))
    else if (this.reading !== null) {
      this.reading.resolve(piece)
      this.reading = null
    } else {
      this.pieces.push(piece)
      this.waitingBytes += PIECE_BYTES + piece.byteLength
      if (!this.isPaused && this.waitingBytes > MAX_WAITING_BYTES) this.setPaused(true)
    }
  }

  end(): void {
    if (this.isOver) return
    this.isWhole = true
    this.reading?.resolve(null)
    this.reading = null
  }

  /** Tells who waits, once. */
  private wake(): void {
    const { waiting } = this
    this.waiting = null
    waiting?.()
  }

  private setPaused(paused: boolean): void {
    if (this.isOver) return
    this.isPaused = paused
    this.line.setPaused(paused)
  }

  private readonly onAbort = (): void => {
    // Bytes that came and were not read are of no use to a caller that is gone.
    if (!this.isOver) this.pieces = []
    this.fail(this.signal.reason)
  }

  /** Marks the end, once; false when it was over before. */
  private finish(reusable: boolean): boolean {
    if (this.isOver) return false
    // The bytes that were to wait for a slow reader are here already; the next exchange must not find the socket
    // unread.
    if (this.isPaused) this.setPaused(false)
    this.isOver = true
    this.signal.removeEventListener('abort', this.onAbort)
    this.line.over(reusable)
    return true
  }
}
