import { hash } from 'node:crypto'
import type { Role } from '../../http/principal.ts'
import { BRAND } from '../../lib/brand.ts'
import type { RandomBytes } from '../../lib/ids.ts'

/** The form of an API key (section 5 of the interface), and the hash that it is stored as. */

const KEY_PREFIX = `${BRAND}_live_`
/** 62^24 is 2^142: nobody guesses one. */
const KEY_CHARACTERS = 24
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** The largest multiple of 62 in a byte. Bytes from here on are drawn again: folded in, they would favour 0 to 7. */
const UNIFORM_LIMIT = 248
const WELL_FORMED = new RegExp(`^${KEY_PREFIX}[0-9A-Za-z]{${KEY_CHARACTERS}}$`)

/** Draws a new key: the prefix and 24 base62 characters, each equally likely. */
export function drawKey(randomBytes: RandomBytes): string {
  let key = KEY_PREFIX
  while (key.length < KEY_PREFIX.length + KEY_CHARACTERS) {
    for (const byte of randomBytes(KEY_CHARACTERS)) {
      if (byte < UNIFORM_LIMIT && key.length < KEY_PREFIX.length + KEY_CHARACTERS) key += BASE62.charAt(byte % 62)
    }
  }
  return key
}

/** True when `text` has the form of a key; says nothing of whether the key exists. */
export function isWellFormedKey(text: string): boolean {
  return WELL_FORMED.test(text)
}

/** SHA-256 of the whole key as 64 lower-case hex digits: all that is ever kept of a key. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex')
}

/** A key as it is stored. Instants are milliseconds since the epoch; null is never. */
export interface ApiKey {
  readonly id: string
  readonly organizationId: string
  /** The member that it belongs to; null: the organization. */
  readonly memberId: string | null
  /** Its maker's word for it; null: it has none. */
  readonly name: string | null
  readonly scopes: string
  /** True when it has an admin's rights: a member's key has them only while the member has them. */
  readonly admin: boolean
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
}

/** A key in a list. */
export interface ListedKey extends ApiKey {
  /** When it was last used, to within two minutes; null: never. */
  readonly lastUsedAtMs: number | null
}

/** Which keys of an organization: all, or one member's. */
export interface KeyOwnerFilter {
  readonly organizationId: string
  /** Null: those of everybody. */
  readonly memberId: string | null
}

/** A key that is about to be changed. */
export interface LockedKey extends ApiKey {
  /** When it expires by itself; `expiresAtMs` is earlier where it was rotated. Null: never. */
  readonly ownExpiresAtMs: number | null
}

/** A key with the names of its organization, and of the person that it belongs to. */
export interface HeldKey extends ApiKey {
  readonly organizationName: string
  /** Null: it belongs to the organization. */
  readonly person: { readonly name: string; readonly email: string; readonly role: Role } | null
}

/** A key, and until when its organization counts as new: all that authentication needs. */
export interface KeyToAuthenticate extends ApiKey {
  /** Until when its organization is new (K2); null when it is not. */
  readonly newUntilMs: number | null
}

export type KeyState = 'active' | 'expired' | 'revoked'

/** Returns the state of a key at `nowMs`. A key expires at the instant named, not after it. */
export function keyStateAt(key: Pick<ApiKey, 'expiresAtMs' | 'revokedAtMs'>, nowMs: number): KeyState {
  if (key.revokedAtMs !== null) return 'revoked'
  return key.expiresAtMs !== null && key.expiresAtMs <= nowMs ? 'expired' : 'active'
}
