import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../kernel/ids.ts'

/** Encryption of what is kept: AES-256-GCM, nonce (12 bytes), ciphertext, tag (16 bytes). */

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Bytes of the installation's data key. */
export const DATA_KEY_BYTES = 32

/** What others may know of a data key: two keys are the same when these are. 32 hex characters. */
export function keyFingerprint(dataKey: Uint8Array): string {
  return createHash('sha256').update('tollgate data key').update(dataKey).digest('hex').slice(0, 32)
}

/** Every attempt has a key of its own, so that random nonces never wear one out, and no answer opens as another's. */
function keyOf(dataKey: Uint8Array, attempt: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', dataKey, attempt, 'tollgate kept answer', DATA_KEY_BYTES))
}

/** Encrypts the body of an attempt's answer. */
export function seal(dataKey: Uint8Array, attempt: string, body: Uint8Array, random: RandomBytes): Uint8Array {
  const nonce = random(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyOf(dataKey, attempt), nonce)
  return new Uint8Array(Buffer.concat([nonce, cipher.update(body), cipher.final(), cipher.getAuthTag()]))
}

/** Decrypts it. Throws when a bit of it, the key or the attempt is another. */
export function unseal(dataKey: Uint8Array, attempt: string, sealed: Uint8Array): Uint8Array {
  const end = sealed.byteLength - TAG_BYTES
  if (end < NONCE_BYTES) throw new Error('a kept answer is cut short')
  const decipher = createDecipheriv('aes-256-gcm', keyOf(dataKey, attempt), sealed.subarray(0, NONCE_BYTES))
  decipher.setAuthTag(sealed.subarray(end))
  return new Uint8Array(Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, end)), decipher.final()]))
}
