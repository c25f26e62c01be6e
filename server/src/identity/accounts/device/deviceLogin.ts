import { type Level, type Resource, SCOPE_LEVELS, SCOPE_RESOURCES } from '../../../http/principal.ts'
import { refusal } from '../../../lib/errors.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { DAY_MS, MINUTE_MS } from '../../../lib/time.ts'
import type { Scopes } from '../../keys/scopes.ts'

/** How long the codes of a login work. */
export const DEVICE_LOGIN_MS = 10 * MINUTE_MS
/** How long the key of a login works. */
export const DEVICE_KEY_MS = 90 * DAY_MS
/** How long a program waits between two questions, at first. */
export const DEVICE_INTERVAL_SECONDS = 5

/** The session that has typed the code of a login, and the member that it acts for. */
export interface DeviceClaimant {
  readonly sessionId: string
  readonly memberId: string
}

/** A login that a session has claimed, as its person decides on it. */
export interface ClaimedLogin {
  readonly id: string
  /** Of the machine, as it calls itself: anybody's text. */
  readonly name: string
  /** Of the machine. */
  readonly address: string
  /** The scopes that the program asks for. */
  readonly scopes: Scopes
}

/** A login in the list of its person. Instants are milliseconds since the epoch. */
export interface OwnDeviceLogin {
  readonly id: string
  readonly memberId: string
  readonly name: string
  readonly address: string
  readonly scopes: string
  readonly state: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

const MORE = refusal('validation_failed', 'You can give the program what it asks for, or less.')
const NOTHING = refusal('validation_failed', 'Allow the program something, or deny the login.')

/** Returns the levels of a resource that a person may give, where the program asks for `asked`. */
export function grantableLevels(asked: Level): readonly Level[] {
  return SCOPE_LEVELS.slice(0, SCOPE_LEVELS.indexOf(asked) + 1)
}

/**
 * Returns the scopes that a person gives of those that are asked for; `offered`: the resources that the person sees and chooses of. A right
 * to another one is not given, but with an admin's rights (`admin`), which are every right. Refused where the scopes are more than is asked
 * for, or nothing.
 */
export function narrowScopes(
  asked: Scopes,
  offered: readonly Resource[],
  chosen: (resource: Resource) => string,
  admin = false,
): Result<Scopes> {
  const levels = { serverless: 'none', billing: 'none', webhooks: 'none', instances: 'none' } as Record<Resource, Level>
  for (const resource of offered) {
    const level = grantableLevels(asked[resource]).find((each) => each === chosen(resource))
    if (level === undefined) return refused(MORE)
    levels[resource] = level
  }
  if (SCOPE_RESOURCES.every((resource) => levels[resource] === 'none')) return refused(NOTHING)
  // A shortcut goes on meaning everything when a resource is added.
  const isWhole = (admin ? offered : SCOPE_RESOURCES).every((resource) => levels[resource] === asked[resource])
  return ok(isWhole ? asked : { shortcut: null, ...levels })
}
