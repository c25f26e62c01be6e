import type { Database } from '../../../infra/postgres/database.ts'
import { type BeginDependencies, beginSession } from '../sessions/begin.ts'
import type { Identity } from './identity.ts'
import { updateIdentityUse } from './store.ts'

/** Begins a session of the person that an identity is linked to; returns the token for the cookie. Null when it is linked to nobody. */
export function signInByIdentity(
  dependencies: BeginDependencies & { readonly database: Database },
  browser: { readonly address: string; readonly userAgent: string },
  identity: Pick<Identity, 'issuer' | 'subject'>,
): Promise<string | null> {
  const { database, clock } = dependencies
  const { address, userAgent } = browser
  return database.transaction(async (tx) => {
    const userId = await updateIdentityUse(tx, identity, clock.now())
    return userId && beginSession(tx, dependencies, { userId, address, userAgent })
  })
}
