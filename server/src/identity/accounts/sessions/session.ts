import type { Role } from '../../../http/principal.ts'
import { refusal } from '../../../lib/errors.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import type { Person } from '../people/person.ts'

export const SESSION_ENDED = refusal('unauthenticated', 'Your session has ended. Sign in, then try again.')

/** The place of a person in the organization that a session acts for. */
export interface Membership {
  readonly memberId: string
  readonly organizationId: string
  readonly organizationName: string
  readonly role: Role
  /** Until when the organization is new (K2), in milliseconds since the epoch; null when it is not. */
  readonly newUntilMs: number | null
}

/** A session that has not expired, as it is found by its token. */
export interface FoundSession {
  readonly id: string
  readonly person: Person
  /** The instant of the sign-in. Instants are milliseconds since the epoch. */
  readonly createdAtMs: number
  readonly expiresAtMs: number
  /** Null: the person is a member of no organization. */
  readonly membership: Membership | null
}

/** A session in a person's own list. Instants are milliseconds since the epoch. */
export interface ListedSession {
  readonly id: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
  /** Of the sign-in; null: not known. */
  readonly address: string | null
  readonly userAgent: string | null
}

/** How long ago a person may have signed in who changes the ways of signing in: an unattended browser is not enough. */
export const RECENT_SIGN_IN_MS = 10 * MINUTE_MS

/** Returns whether a session began lately. */
export function isRecent({ createdAtMs }: Pick<FoundSession, 'createdAtMs'>, nowMs: number): boolean {
  return nowMs - createdAtMs <= RECENT_SIGN_IN_MS
}
