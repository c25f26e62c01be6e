import { type ApiKeyPrincipal, type Authenticate, INVALID_API_KEY } from '../../http/principal.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { addressGroup } from '../../lib/clientAddress.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import { type ApiKey, hashKey, isWellFormedKey, type KeyToAuthenticate, keyStateAt } from './key.ts'
import { createKnownKeys } from './known.ts'
import { parseScopes } from './scopes.ts'
import type { KeyUses } from './uses.ts'

export interface AuthenticatorDependencies {
  readonly database: Queryable
  readonly clock: Clock
  /** Told why a look-up failed; the client only learns that it did. */
  readonly report: (error: unknown) => void
  /** Told of the uses of keys, of each at most once a minute. */
  readonly uses: Pick<KeyUses, 'note'>
}

type Answer = Result<ApiKeyPrincipal>

const UNAUTHENTICATED: Answer = refused(
  refusal('unauthenticated', 'There is no API key: send it in the header "Authorization: Bearer <key>".'),
)
const INVALID: Answer = refused(INVALID_API_KEY)
const UNAVAILABLE: Answer = refused(
  refusal('upstream_unavailable', "The API key can't be checked at the moment: try again shortly.", {
    retryAfterSeconds: 1,
  }),
)

/** The part of the header before the key. The scheme's name knows no case (RFC 9110, 11.1). */
const BEARER = /^bearer +/i

/** The memory of a key that exists. */
interface KnownKey {
  readonly answer: Answer
  readonly stored: Pick<ApiKey, 'id' | 'expiresAtMs' | 'revokedAtMs'>
  /** From this instant on its use is to be noted again. */
  noteFromMs: number
}

/** The check that every request passes, and two functions to hand to the process's listener. */
export interface Authenticator {
  readonly authenticate: Authenticate
  /** A key was made or revoked, or its organization's limits have changed. */
  readonly hear: (keyHash: string) => void
  /** To be told whether notifications arrive. Until the first true, and after a false, the database is asked each time. */
  readonly onConfirmed: (confirmed: boolean) => void
}

/** Builds a process's authenticator. */
export function createAuthenticator(dependencies: AuthenticatorDependencies): Authenticator {
  const { database, clock, report, uses } = dependencies
  const known = createKnownKeys({ database, clock, report, remember: toKnownKey })

  const answerFor = (key: KnownKey): Answer => {
    const nowMs = clock.now()
    if (keyStateAt(key.stored, nowMs) !== 'active') return INVALID
    if (nowMs >= key.noteFromMs) {
      key.noteFromMs = nowMs + MINUTE_MS
      uses.note(key.stored.id, nowMs)
    }
    return key.answer
  }

  const authenticate: Authenticate = (authorization, address) => {
    if (authorization === null || authorization === undefined) return UNAUTHENTICATED
    // A comma joins the values of a header that was sent twice; no key has one, so that it is refused as malformed.
    const key = authorization.replace(BEARER, '')
    if (key === authorization || !isWellFormedKey(key)) return INVALID
    const keyHash = hashKey(key)

    const remembered = known.remembered(keyHash)
    if (remembered === 'unknown') return INVALID
    if (remembered !== undefined && known.isCurrent()) return answerFor(remembered)
    // A key that is known waits in a line of its own, which nobody else can fill.
    const line = remembered === undefined ? addressGroup(address()) : keyHash
    return known.lookUp(line, keyHash).then((found) => {
      if (found === 'unavailable') return UNAVAILABLE
      return found === 'unknown' ? INVALID : answerFor(found)
    })
  }
  return { authenticate, hear: known.hear, onConfirmed: known.setCurrent }
}

function toKnownKey(stored: KeyToAuthenticate): KnownKey {
  const scopes = parseScopes(stored.scopes)
  if (!scopes.ok)
    throw new Error(`api_keys holds scopes that can't be read, key ${stored.id}: ${scopes.refusal.message}`)
  const { id, organizationId, admin, expiresAtMs, revokedAtMs, newUntilMs } = stored
  return {
    answer: ok({ kind: 'apiKey', id, organizationId, scopes: scopes.value, admin, expiresAtMs, newUntilMs }),
    stored: { id, expiresAtMs, revokedAtMs },
    noteFromMs: 0,
  }
}
