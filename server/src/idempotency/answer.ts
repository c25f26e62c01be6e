import { DAY_MS } from '../kernel/time.ts'

/** For so long an answer is given again; then its key begins anew. Reckoned from the beginning of the attempt. */
export const KEPT_MS = DAY_MS

/** Characters of an Idempotency-Key, at most. */
export const KEY_LIMIT = 255

/** Larger bodies are files: rows of megabytes would slow every backup and vacuum of the database. */
export const IN_ROW_BYTES = 256 * 1024

/** What is given again, byte for byte. */
export interface KeptAnswer {
  readonly status: number
  readonly contentType: string | null
  /** Of an asynchronous operation: the `Operation-Id` header. */
  readonly operationId: string | null
  readonly body: Uint8Array
}

/** Whose Idempotency-Key it is: that of one API key never meets another's. */
export interface KeyScope {
  readonly keyId: string
  /** SHA-256 of the Idempotency-Key. */
  readonly keyHash: Uint8Array
}
