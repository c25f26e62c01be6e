import type { Queryable } from '../io/postgres/database.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Clock } from '../kernel/time.ts'
import { addressGroup } from './address.ts'
import { type ApiKey, hashKey, isWellFormedKey, type KeyAtTheDoor, keyStateAt } from './key.ts'
import { createKnownKeys } from './known.ts'
import { parseScopes, type Scopes } from './scopes.ts'
import { KEYS_CHANNEL } from './store.ts'
import { createUnknownKeys } from './unknown.ts'

/** Who a request comes from. */
export interface AuthenticatedKey {
  readonly id: string
  readonly organizationId: string
  readonly scopes: Scopes
  readonly admin: boolean
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAtMs: number | null
  /** Until when its organization is new (K2), in milliseconds since the epoch; null when it is not. */
  readonly newUntilMs: number | null
}

export interface AuthenticatorDependencies {
  readonly database: Queryable
  readonly clock: Clock
  /** Told why a look-up failed; the client only learns that it did. */
  readonly report: (error: unknown) => void
}

/**
 * Answers at once when the key is in memory, else after one query.
 * Refusals: `unauthenticated` (no header), `invalid_api_key` (malformed, unknown, revoked, expired),
 * `rate_limit_exceeded` (more than 60 unknown keys a minute from the address; `rate_limited` in envelope A) and
 * `upstream_unavailable` (the database can't be asked, E14; in envelope A `internal_error` with status 503).
 * `address` is called only where the key is not in memory.
 */
export type Authenticate = (
  authorization: string | null | undefined,
  address: () => string,
) => Result<AuthenticatedKey> | Promise<Result<AuthenticatedKey>>

type Answer = Result<AuthenticatedKey>

const UNAUTHENTICATED: Answer = refused(
  refusal('unauthenticated', 'There is no API key: send it in the header "Authorization: Bearer <key>".'),
)
const INVALID: Answer = refused(
  refusal('invalid_api_key', 'The API key is not valid: it is malformed, unknown, expired or revoked.'),
)
const UNAVAILABLE: Answer = refused(
  refusal('upstream_unavailable', "The API key can't be checked at the moment: try again shortly.", {
    retryAfterSeconds: 1,
  }),
)

/** The part of the header before the key. The scheme's name knows no case (RFC 9110, 11.1). */
const BEARER = /^bearer +/i

/** What memory keeps of a key that exists. */
interface KnownKey {
  readonly answer: Answer
  readonly stored: Pick<ApiKey, 'expiresAtMs' | 'revokedAtMs'>
}

/** What every request passes, and what it has to be told. Give the last two to the process's listener. */
export interface Authenticator {
  readonly authenticate: Authenticate
  /** What to do with the notifications of each channel that keys are told of on. */
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /** To be told whether notifications arrive. Until the first true, and after a false, the database is asked each time. */
  readonly onConfirmed: (confirmed: boolean) => void
}

/** Builds a process's authenticator. */
export function createAuthenticator(dependencies: AuthenticatorDependencies): Authenticator {
  const { database, clock, report } = dependencies
  const known = createKnownKeys({ database, clock, report, remember: toKnownKey })
  const unknown = createUnknownKeys()

  const answerFor = (key: KnownKey): Answer => (keyStateAt(key.stored, clock.now()) === 'active' ? key.answer : INVALID)

  const answerUnknown = (address: string): Answer => {
    const nowMs = clock.monotonicMs()
    const blocked = unknown.blockedSeconds(address, nowMs)
    if (blocked !== undefined) return tooManyUnknown(blocked)
    unknown.count(address, nowMs)
    return INVALID
  }

  const authenticate: Authenticate = (authorization, address) => {
    if (authorization === null || authorization === undefined) return UNAUTHENTICATED
    // A comma joins the values of a header that was sent twice; no key has one, so that it is refused as malformed.
    const key = authorization.replace(BEARER, '')
    if (key === authorization || !isWellFormedKey(key)) return INVALID
    const keyHash = hashKey(key)

    const remembered = known.remembered(keyHash)
    if (remembered === 'unknown') return answerUnknown(addressGroup(address()))
    if (remembered !== undefined && known.isCurrent()) return answerFor(remembered)

    const group = addressGroup(address())
    const blocked = remembered === undefined ? unknown.blockedSeconds(group, clock.monotonicMs()) : undefined
    if (blocked !== undefined) return tooManyUnknown(blocked)
    return known.lookUp(keyHash).then((found) => {
      if (found === 'unavailable') return UNAVAILABLE
      return found === 'unknown' ? answerUnknown(group) : answerFor(found)
    })
  }
  return { authenticate, channels: { [KEYS_CHANNEL]: known.hear }, onConfirmed: known.setCurrent }
}

function toKnownKey(stored: KeyAtTheDoor): KnownKey {
  const scopes = parseScopes(stored.scopes)
  if (!scopes.ok)
    throw new Error(`api_keys holds scopes that can't be read, key ${stored.id}: ${scopes.refusal.message}`)
  const { id, organizationId, admin, expiresAtMs, revokedAtMs, newUntilMs } = stored
  return {
    answer: ok({ id, organizationId, scopes: scopes.value, admin, expiresAtMs, newUntilMs }),
    stored: { expiresAtMs, revokedAtMs },
  }
}

function tooManyUnknown(retryAfterSeconds: number): Answer {
  return refused(
    refusal('rate_limit_exceeded', 'Too many unknown API keys came from this address: check the key, then try again.', {
      retryAfterSeconds,
    }),
  )
}
