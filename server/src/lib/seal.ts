import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import type { RandomBytes } from './ids.ts'

/** Encryption of what is kept for customers, with the installation's data key: AES-256-GCM, nonce (12 bytes), ciphertext, tag (16 bytes). */

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** So many bytes more has a thing that is sealed. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES

/** Bytes of the installation's data key. */
export const DATA_KEY_BYTES = 32

/** Returns the public name of a data key, 32 hex characters. Two keys with the same fingerprint are the same key. */
export function keyFingerprint(dataKey: Uint8Array): string {
  return createHash('sha256').update('tollgate data key').update(dataKey).digest('hex').slice(0, 32)
}

/**
 * The name of a sealed value. Its words derive its keys, so that nothing opens as something else; they stay as they
 * are for ever.
 */
export interface SealedThing {
  readonly kind: 'tollgate kept answer' | 'tollgate webhook secret'
  /** Its own name among those of its kind: each has a key of its own, so that random nonces never wear one out. */
  readonly name: string
}

function keyOf(dataKey: Uint8Array, { kind, name }: SealedThing): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', dataKey, name, kind, DATA_KEY_BYTES))
}

/** Encrypts the bytes of a thing. */
export function seal(dataKey: Uint8Array, thing: SealedThing, bytes: Uint8Array, random: RandomBytes): Uint8Array {
  const nonce = random(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyOf(dataKey, thing), nonce)
  const sealed = new Uint8Array(bytes.byteLength + SEAL_BYTES)
  sealed.set(nonce)
  sealed.set(cipher.update(bytes), NONCE_BYTES)
  // Makes the tag, and gives no more bytes.
  cipher.final()
  sealed.set(cipher.getAuthTag(), NONCE_BYTES + bytes.byteLength)
  return sealed
}

/** Decrypts it. Throws when a bit of it, the key or the thing is another. */
export function unseal(dataKey: Uint8Array, thing: SealedThing, sealed: Uint8Array): Uint8Array<ArrayBuffer> {
  const end = sealed.byteLength - TAG_BYTES
  if (end < NONCE_BYTES) throw new Error('what is sealed is cut short')
  const decipher = createDecipheriv('aes-256-gcm', keyOf(dataKey, thing), sealed.subarray(0, NONCE_BYTES))
  decipher.setAuthTag(sealed.subarray(end))
  const opened = decipher.update(sealed.subarray(NONCE_BYTES, end))
  // Checks the tag, and gives no more bytes.
  decipher.final()
  return new Uint8Array(opened.buffer, opened.byteOffset, opened.byteLength)
}
