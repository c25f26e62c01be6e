import { type RandomBytes, toHex } from '../kernel/ids.ts'

/** What may be echoed in a header: visible characters and inner spaces, at most 128 of them (E11). */
const ACCEPTABLE = /^[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?$/

/** The client's own request id where it can be echoed, else 32 hex characters. It is the client's word and keys nothing. */
export function requestIdOf(header: string | null | undefined, random: RandomBytes): string {
  if (header !== null && header !== undefined && ACCEPTABLE.test(header)) return header
  return toHex(random(16))
}
