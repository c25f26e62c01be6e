import type { Database } from './io/postgres/database.ts'
import type { RandomBytes } from './kernel/ids.ts'
import { MICROCENTS_PER_DOLLAR } from './kernel/money.ts'
import type { Clock } from './kernel/time.ts'
import { createKey } from './keys/create.ts'
import { parseScopes } from './keys/scopes.ts'
import { grantCredit } from './money/grantCredit.ts'
import { openAccount } from './money/store.ts'
import { createOrganization } from './organizations/create.ts'
import { listOrganizations } from './organizations/find.ts'

/** The organization that a first start makes, and what it gets to try things out with. */
const FIRST_ORGANIZATION = 'default'
const FIRST_CREDIT_DOLLARS = 25n

/**
 * On an installation without organizations makes the first one, with credit and an admin's key. Returns the key, to be
 * shown once; null on every later start.
 */
export async function makeFirstKey(database: Database, clock: Clock, random: RandomBytes): Promise<string | null> {
  if ((await listOrganizations(database)).length > 0) return null
  const made = await createOrganization(
    { database, clock, randomBytes: random, openAccount },
    { name: FIRST_ORGANIZATION, standing: 'established' },
  )
  if (!made.ok) throw new Error(made.refusal.message)
  const organizationId = made.value.id
  await grantCredit(database, random, {
    organizationId,
    amountMicrocents: FIRST_CREDIT_DOLLARS * MICROCENTS_PER_DOLLAR,
    source: `first-start:${organizationId}`,
    note: 'To try things out',
    atMs: clock.now(),
  })
  const scopes = parseScopes('full_access')
  if (!scopes.ok) throw new Error(scopes.refusal.message)
  const { plaintext } = await createKey(
    { database, clock, randomBytes: random },
    { organizationId, scopes: scopes.value, admin: true, expiresAtMs: null },
  )
  return plaintext
}
