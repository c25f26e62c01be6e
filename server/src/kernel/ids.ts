/** Identifiers. Randomness and time are arguments. */

/** Returns `length` random bytes; the buffer may be reused by the next call. */
export type RandomBytes = (length: number) => Uint8Array

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Lower-case hex of bytes. */
export function toHex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += HEX[byte]
  return text
}

/**
 * A version 7 UUID (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits, so that rows made later
 * sort later.
 */
export function uuidV7(epochMs: number, random: RandomBytes): string {
  const tail = random(10)
  const time = Math.floor(epochMs).toString(16).padStart(12, '0')
  const versioned = HEX[0x70 | ((tail[0] ?? 0) & 0x0f)]
  const variant = HEX[0x80 | ((tail[2] ?? 0) & 0x3f)]
  return (
    `${time.slice(0, 8)}-${time.slice(8, 12)}-${versioned}${HEX[tail[1] ?? 0]}-` +
    `${variant}${HEX[tail[3] ?? 0]}-${toHex(tail.subarray(4, 10))}`
  )
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Whether text is a UUID of any version, in its usual form. */
export function isUuid(text: string): boolean {
  return UUID.test(text)
}
