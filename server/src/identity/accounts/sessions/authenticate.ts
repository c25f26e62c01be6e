import type { AuthenticateSession, SessionPrincipal } from '../../../http/principal.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { addressGroup } from '../../../lib/clientAddress.ts'
import { refusal } from '../../../lib/errors.ts'
import type { Log } from '../../../lib/log.ts'
import { createRecent } from '../../../lib/recent.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { type Clock, within } from '../../../lib/time.ts'
import { LOOK_UP_TIMEOUT_MS, LookUps } from '../../keys/lookUps.ts'
import { hashToken } from '../secrets/token.ts'
import { type FoundSession, SESSION_ENDED } from './session.ts'
import { selectSessionsByToken } from './store.ts'

const NO_MEMBER = refusal(
  'insufficient_scope',
  'You are a member of no organization. Ask an admin of yours for an invitation.',
)
const UNAVAILABLE = refusal('upstream_unavailable', "Your session can't be checked at the moment: try again shortly.", {
  retryAfterSeconds: 1,
})

/** better-auth and `drawSecret` make tokens of 32 characters. A text of another form is no token, and costs no look-up. */
const TOKEN = /^[\w-]{32,128}$/

/** Sessions that a process remembers to have let in: some 5 MB at most. */
const SEEN_MOST = 20_000

export interface SessionDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

/** Returns the session of a cookie's value; null when it is unknown, has expired or was ended. */
export async function findSession(
  dependencies: SessionDependencies,
  token: string | null,
): Promise<FoundSession | null> {
  return token === null || !TOKEN.test(token) ? null : sessionOf(dependencies, hashToken(token))
}

async function sessionOf({ database, clock }: SessionDependencies, tokenHash: string): Promise<FoundSession | null> {
  return (await selectSessionsByToken(database, [tokenHash], clock.now())).get(tokenHash) ?? null
}

/**
 * Returns the function that says who sends a request with a session's cookie. It asks the database each time, so that the end of
 * a session, a changed role and a removed member count at once in every process. A session that this process has let in before waits
 * in a line of its own, beside no strangers; its requests that wait share one query, which begins after each of them. Any other cookie waits in the line of its address, as unknown keys do (K5): whatever strangers send, they cost two
 * queries at a time, and keep no known session waiting.
 */
export function authenticateSessions(
  dependencies: SessionDependencies & { readonly log: Pick<Log, 'warn'> },
): AuthenticateSession {
  const { database, clock, log } = dependencies
  const seen = createRecent<true>(SEEN_MOST)
  const report = (error: unknown) => log.warn({ err: error }, 'accounts: a session could not be looked up')
  const find = (tokenHashes: readonly string[]) => selectSessionsByToken(database, tokenHashes, clock.now())
  const strangers = new LookUps<FoundSession>({ clock, report, find })
  const known = new LookUps<FoundSession>({ clock, report, find })

  const lookUp = (tokenHash: string, address: () => string) => {
    const isSeen = seen.get(tokenHash) !== undefined
    const asked = isSeen ? known.ask(tokenHash, tokenHash) : strangers.ask(addressGroup(address()), tokenHash)
    return within(clock, LOOK_UP_TIMEOUT_MS, asked, 'unavailable' as const)
  }

  return async (token, address): Promise<Result<SessionPrincipal>> => {
    if (!TOKEN.test(token)) return refused(SESSION_ENDED)
    const tokenHash = hashToken(token)
    const found = await lookUp(tokenHash, address)
    if (found === 'unavailable') return refused(UNAVAILABLE)
    if (found === 'unknown') {
      seen.delete(tokenHash)
      return refused(SESSION_ENDED)
    }
    seen.set(tokenHash, true)
    const { id: sessionId, createdAtMs: signedInAtMs, person, membership } = found
    if (membership === null) return refused(NO_MEMBER)
    const { memberId: id, organizationId, role, newUntilMs } = membership
    const { id: userId, isOperator } = person
    return ok({ kind: 'session', id, sessionId, signedInAtMs, userId, organizationId, role, isOperator, newUntilMs })
  }
}
