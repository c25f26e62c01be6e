import { type RandomBytes, toHex } from './ids.ts'

/**
 * A text that may be echoed in a header (E11): at most 128 bytes, visible ones and inner spaces. The server reads
 * each byte as the character of its number and sends it as that byte, so that those above 127, as UTF-8 has them,
 * come back as they came.
 */
const ACCEPTABLE = /^[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]{0,126}[\x21-\x7e\x80-\xff])?$/

/** The client's own request id where it can be echoed, else 32 hex characters. It is the client's word and keys nothing. */
export function requestIdOf(header: string | null | undefined, random: RandomBytes): string {
  if (header !== null && header !== undefined && ACCEPTABLE.test(header)) return header
  return toHex(random(16))
}
