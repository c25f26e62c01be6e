import { DAY_MS } from '../../lib/time.ts'

/** For so long an answer is given again; then its key begins anew. Reckoned from the beginning of the attempt. */
export const ANSWER_KEPT_MS = DAY_MS

/** Characters of an Idempotency-Key, at most. */
export const KEY_LIMIT = 255

/**
 * Bytes of a piece. A larger body is encrypted, and read again, in pieces of so many bytes, and is a file: rows of megabytes
 * would slow every backup and vacuum of the database.
 */
export const PIECE_BYTES = 256 * 1024

/** A body that is written while it is kept, so that it need not be in memory whole. Never empty. */
export interface WrittenBody {
  readonly byteLength: number
  /** Writes it from its beginning, in blocks of any length. May be called again. */
  blocks(): Iterable<Uint8Array>
}

/** An answer as it is kept: what is given again, byte for byte. */
export interface KeptAnswer {
  readonly status: number
  readonly contentType: string | null
  /** Of an asynchronous operation: the `Operation-Id` header. */
  readonly operationId: string | null
  readonly body: Uint8Array | WrittenBody
}

/** A body that is read while it leaves. */
export interface BodyInPieces {
  readonly pieces: number
  /** Reads and decrypts the piece of this index, from 0. Rejects when it is gone, or the database or the store is away. */
  read(index: number): Promise<Uint8Array<ArrayBuffer>>
}

/** A kept answer that is given again. A body of more than a piece is not in memory. */
export interface ReplayedAnswer extends Omit<KeptAnswer, 'body'> {
  readonly body: Uint8Array<ArrayBuffer> | BodyInPieces
}

/** The owner and the hash of an Idempotency-Key: that of one principal never meets another's (D7). */
export interface KeyScope {
  /** UUID of the API key, or of the member. */
  readonly keyId: string
  /** SHA-256 of the Idempotency-Key. */
  readonly keyHash: Uint8Array
}

/** The caller whose request has a key. */
export interface KeyOwner {
  /** UUID of the API key, or of the member. */
  readonly id: string
  readonly organizationId: string
}
