import { hash, timingSafeEqual } from 'node:crypto'
import type { RandomBytes } from '../../../lib/ids.ts'

/** 192 bits: nobody guesses one. */
const SECRET_BYTES = 24

/** Draws a secret for a link or a cookie: 32 characters that need no escaping in a URL. */
export function drawSecret(random: RandomBytes): string {
  return Buffer.from(random(SECRET_BYTES)).toString('base64url')
}

/** SHA-256 of a token as 64 lower-case hex digits: all that is kept of it. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex')
}

/** The same as bytes. */
export function hashOfSecret(secret: string): Uint8Array {
  return new Uint8Array(hash('sha256', secret, 'buffer'))
}

/**
 * Returns the text that shows that a change was asked for by a page of this server. It follows from a cookie that scripts can't
 * read and can't be turned back into it, so that only this server, and the pages that it made, have it.
 */
export function csrfTokenOf(cookieValue: string): string {
  return hash('sha256', `csrf ${cookieValue}`, 'base64url')
}

/** Returns whether two texts are the same, in a time that does not tell how much of them is. */
export function isSameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(hashToken(one)), Buffer.from(hashToken(other))]
  return timingSafeEqual(left, right)
}
