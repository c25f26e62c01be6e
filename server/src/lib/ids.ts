/** Identifiers. Randomness and time are arguments. */

import { createHash } from 'node:crypto'

/** Returns `length` random bytes; the caller may change them. */
export type RandomBytes = (length: number) => Uint8Array

/** Below every other UUID, in the order of PostgreSQL too: where a list by ids begins. */
export const LOWEST_UUID = '00000000-0000-0000-0000-000000000000'

/** Returns a random whole number of 31 bits. */
export function randomNumber31(random: RandomBytes): number {
  const bytes = random(4)
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) >>> 1
}

/** Returns a random number from 0 up to, and without, 1. */
export function randomFraction(random: RandomBytes): number {
  const bytes = random(4)
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) / 2 ** 32
}

/** Lower-case hex of bytes. */
export function toHex(bytes: Uint8Array): string {
  return bytes.toHex()
}

/**
 * A version 7 UUID (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits, so that rows made later
 * sort later.
 */
export function uuidV7(epochMs: number, random: RandomBytes): string {
  const tail = random(10)
  tail[0] = 0x70 | ((tail[0] ?? 0) & 0x0f)
  tail[2] = 0x80 | ((tail[2] ?? 0) & 0x3f)
  const hex = Math.floor(epochMs).toString(16).padStart(12, '0') + toHex(tail)
  return uuidOfHex(hex)
}

/**
 * A version 5 UUID (RFC 9562, section 5.5): always the same one for a name within a namespace, which is a UUID itself. No secret: whoever knows
 * both can compute it.
 */
export function uuidV5(namespace: string, name: string): string {
  const hash = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name)
    .digest()
  hash[6] = 0x50 | ((hash[6] ?? 0) & 0x0f)
  hash[8] = 0x80 | ((hash[8] ?? 0) & 0x3f)
  return uuidOfHex(hash.toString('hex', 0, 16))
}

/** Puts the dashes of a UUID into its 32 digits. Any other text gives no UUID. */
export function uuidOfHex(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Returns whether text is a UUID of any version, in its usual form. */
export function isUuid(text: string): boolean {
  return UUID.test(text)
}

/** The instant that a version 7 UUID was made at, in milliseconds since the epoch; null for any other text. */
export function instantOfUuid(text: string): number | null {
  if (!isUuid(text) || text[14] !== '7') return null
  return Number.parseInt(text.slice(0, 8) + text.slice(9, 13), 16)
}
