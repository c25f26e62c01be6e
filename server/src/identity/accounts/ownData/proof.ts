import type { Queryable } from '../../../infra/postgres/database.ts'
import { refusal } from '../../../lib/errors.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import { findPasswordHash } from '../people/find.ts'
import type { AttemptCounter } from '../secrets/attempts.ts'
import type { Passwords } from '../secrets/betterAuth.ts'
import { type SignInLimitDependencies, type TypingBrowser, waitToSignIn } from '../secrets/signInLimit.ts'
import { type FoundSession, isRecent, RECENT_SIGN_IN_MS } from '../sessions/session.ts'

export interface ProofDependencies extends SignInLimitDependencies {
  readonly database: Queryable
  readonly passwords: Pick<Passwords, 'verify'>
  readonly attempts: SignInLimitDependencies['attempts'] & Pick<AttemptCounter, 'byPerson'>
}

const WRONG = refusal('validation_failed', 'This is not your password. Type it again.', { param: 'password' })
const TOO_OFTEN = 'Too many attempts. Wait for the seconds in Retry-After, then try again.'

/** The refusal of a person whose session began too long ago. */
export const SIGN_IN_AGAIN = refusal(
  'insufficient_scope',
  `You signed in more than ${RECENT_SIGN_IN_MS / MINUTE_MS} minutes ago. Sign in again, then try again.`,
)

/**
 * Verifies once more who is at the browser of a session: by the password, or for a person who has none by a sign-in of the last ten
 * minutes. Returns the hash of the password; null where there is none. Attempts count as those to sign in do, and for the person.
 * Refused: `validation_failed` (wrong password), `rate_limit_exceeded`, `insufficient_scope` (signed in too long ago).
 */
export async function proveOneself(
  dependencies: ProofDependencies,
  session: FoundSession,
  typed: TypingBrowser & { readonly password: string },
): Promise<Result<string | null>> {
  const { database, passwords, attempts, clock } = dependencies
  const { person } = session
  const hash = await findPasswordHash(database, person.id)
  if (hash === null) return isRecent(session, clock.now()) ? ok(null) : refused(SIGN_IN_AGAIN)
  const retryAfterSeconds =
    (await attempts.byPerson('password', person.id)) ?? (await waitToSignIn(dependencies, typed, person.email))
  if (retryAfterSeconds !== null) return refused(refusal('rate_limit_exceeded', TOO_OFTEN, { retryAfterSeconds }))
  return (await passwords.verify(hash, typed.password, typed.address)) ? ok(hash) : refused(WRONG)
}
