/** The mark of a browser with which somebody has signed in, by which the server knows it again. Nothing of it is stored. */

import { createHmac, hkdfSync } from 'node:crypto'
import type { DataKeys } from '../../../lib/dataKeys.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { type Clock, DAY_SECONDS, SECOND_MS } from '../../../lib/time.ts'
import { drawSecret, isSameText } from './token.ts'

/** After that, or a new data key, the next sign-in counts as one from an unknown browser. */
export const KNOWN_BROWSER_SECONDS = 180 * DAY_SECONDS

const CHARACTERS_MOST = 200
const MARK = /^(\d{1,9})\.(\d{1,12})\.([\w-]{32})\.([\w-]{43})$/

export interface KnownBrowserDependencies {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly dataKeys: DataKeys
}

/** Makes the mark of a browser that has just signed in with a mail address. It is worth nothing with another address. */
export function markBrowser({ clock, random, dataKeys }: KnownBrowserDependencies, email: string): string {
  const { number, key, done } = dataKeys.take()
  const text = `${number}.${Math.floor(clock.now() / SECOND_MS) + KNOWN_BROWSER_SECONDS}.${drawSecret(random)}`
  const mark = `${text}.${signatureOf(key, text, email)}`
  done()
  return mark
}

/**
 * Returns whether this server made a mark for this mail address, and it has not expired. Every living process has in memory each key that
 * marks are made with.
 */
export function isKnownBrowser(
  { clock, dataKeys }: Omit<KnownBrowserDependencies, 'random'>,
  mark: string | null,
  email: string,
): boolean {
  if (mark === null || mark.length > CHARACTERS_MOST) return false
  const [, number, expires, nonce, signature] = MARK.exec(mark) ?? []
  if (signature === undefined || Number(expires) * SECOND_MS <= clock.now()) return false
  const key = dataKeys.peek(Number(number))
  return key !== null && isSameText(signature, signatureOf(key, `${number}.${expires}.${nonce}`, email))
}

function signatureOf(key: Uint8Array, text: string, email: string): string {
  const own = Buffer.from(hkdfSync('sha256', key, '', 'tollgate known browsers', 32))
  return createHmac('sha256', own).update(`${text} ${email}`).digest('base64url')
}
