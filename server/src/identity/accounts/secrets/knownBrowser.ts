/** The mark of a browser with which somebody has signed in, by which the server knows it again. Nothing of it is stored. */

import { createHmac, hkdfSync } from 'node:crypto'
import type { DataKeys } from '../../../lib/dataKeys.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { type Clock, DAY_SECONDS, SECOND_MS } from '../../../lib/time.ts'
import { drawSecret, isSameText } from './token.ts'

/** After that, a new password or a new data key, the next sign-in counts as one from an unknown browser. */
export const KNOWN_BROWSER_SECONDS = 180 * DAY_SECONDS

const CHARACTERS_MOST = 200
const MARK = /^(\d{1,9})\.(\d{1,12})\.([\w-]{32})\.([\w-]{43})$/

export interface KnownBrowserDependencies {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly dataKeys: DataKeys
  /** Returns the hash of the password of a mail address; null where it has no password, or nobody has the address. */
  readonly passwordHashOf: (email: string) => Promise<string | null>
}

/**
 * Makes the mark of a browser that has just signed in with a mail address. It is worth nothing with another address, or once the address
 * has another password: somebody who knew the one before has no more guesses than a stranger.
 */
export async function markBrowser(
  { clock, random, dataKeys, passwordHashOf }: KnownBrowserDependencies,
  email: string,
): Promise<string> {
  const password = await passwordHashOf(email)
  const { number, key, done } = dataKeys.take()
  const text = `${number}.${Math.floor(clock.now() / SECOND_MS) + KNOWN_BROWSER_SECONDS}.${drawSecret(random)}`
  const mark = `${text}.${signatureOf(key, text, email, password)}`
  done()
  return mark
}

/**
 * Returns whether this server made a mark for this mail address with its present password, and it has not expired. Every living process has
 * in memory each key that marks are made with.
 */
export async function isKnownBrowser(
  { clock, dataKeys, passwordHashOf }: Omit<KnownBrowserDependencies, 'random'>,
  mark: string | null,
  email: string,
): Promise<boolean> {
  if (mark === null || mark.length > CHARACTERS_MOST) return false
  const [, number, expires, nonce, signature] = MARK.exec(mark) ?? []
  if (signature === undefined || Number(expires) * SECOND_MS <= clock.now()) return false
  const key = dataKeys.peek(Number(number))
  if (key === null) return false
  const password = await passwordHashOf(email)
  return isSameText(signature, signatureOf(key, `${number}.${expires}.${nonce}`, email, password))
}

function signatureOf(key: Uint8Array, text: string, email: string, password: string | null): string {
  const own = Buffer.from(hkdfSync('sha256', key, '', 'tollgate known browsers', 32))
  return createHmac('sha256', own)
    .update(`${text} ${email} ${password ?? ''}`)
    .digest('base64url')
}
