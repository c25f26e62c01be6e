/** Passwords of apps: made by us, of so many random bits that a fast hash of them is enough. */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { RandomBytes } from '../../lib/ids.ts'
import { APP_USER } from './address.ts'

const PASSWORD_BYTES = 24

/** Longer than any password of ours. */
const SHOWN_MOST = 1_024

export function newAppPassword(random: RandomBytes): string {
  return Buffer.from(random(PASSWORD_BYTES)).toString('base64url')
}

export function hashOfPassword(password: string): Uint8Array {
  return createHash('sha256').update(password).digest()
}

/** The password that a caller shows by Basic auth, with the name that goes with it. Null: none is shown. */
export function shownPassword(authorization: string | null): string | null {
  const [, encoded = ''] = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization ?? '') ?? []
  if (encoded === '' || encoded.length > SHOWN_MOST) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  return text.startsWith(`${APP_USER}:`) ? text.slice(APP_USER.length + 1) : ''
}

/** Takes equally long for every password. `hash` null: there is none that is right. */
export function isRightPassword(shown: string, hash: Uint8Array | null): boolean {
  const digest = hashOfPassword(shown)
  const isEqual = timingSafeEqual(digest, hash?.length === digest.length ? hash : new Uint8Array(digest.length))
  return hash !== null && isEqual
}
