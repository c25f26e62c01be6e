import type { Database } from '../../../infra/postgres/database.ts'
import { readMailAddress } from '../../../lib/mailAddress.ts'
import { findPasswordHashByEmail, findSettledPasswordHash } from '../people/find.ts'
import type { Attempted, BegunSession, Passwords } from '../secrets/betterAuth.ts'
import { endSessionByToken } from '../sessions/own.ts'

/**
 * Begins a session for an address, in lower case, and a password. Null when the address is unknown or the password is wrong. A password that is
 * changed meanwhile begins none: the change ended all sessions, and this one would outlive it.
 */
export async function signIn(
  { database, passwords }: { readonly database: Database; readonly passwords: Passwords },
  attempted: Attempted,
): Promise<BegunSession | null> {
  // Nobody has an account with another text, and some texts can't be looked for.
  const email = readMailAddress(attempted.email)
  if (email === null) return null
  const before = await findPasswordHashByEmail(database, email)
  const begun = await passwords.signIn({ ...attempted, email })
  if (begun === null) return null
  if ((await findSettledPasswordHash(database, email)) === before) return begun
  await endSessionByToken(database, begun.token)
  return null
}
