import type { Database } from './io/postgres/database.ts'
import type { RandomBytes } from './kernel/ids.ts'
import { MICROCENTS_PER_DOLLAR } from './kernel/money.ts'
import type { Result } from './kernel/result.ts'
import type { Clock } from './kernel/time.ts'
import { createKey } from './keys/create.ts'
import { listKeys } from './keys/list.ts'
import { parseScopes } from './keys/scopes.ts'
import { grantCredit } from './money/grantCredit.ts'
import { openAccount } from './money/store.ts'
import { createOrganization } from './organizations/create.ts'
import { findOrganizationByName } from './organizations/find.ts'

/** The organization that a first start makes, and what it gets to try things out with. */
const FIRST_ORGANIZATION = 'default'
const FIRST_CREDIT_DOLLARS = 25n

/**
 * On the first start makes an organization with credit and an admin's key. Returns the key, to be shown once; null on
 * every later start. A start that was cut off in between is completed by the next.
 */
export async function makeFirstKey(database: Database, clock: Clock, random: RandomBytes): Promise<string | null> {
  const organizationId = await firstOrganization(database, clock, random)
  if ((await listKeys(database, organizationId)).length > 0) return null
  // Posted once, whatever happened before: its source is unique.
  await grantCredit(database, random, {
    organizationId,
    amountMicrocents: FIRST_CREDIT_DOLLARS * MICROCENTS_PER_DOLLAR,
    source: `first-start:${organizationId}`,
    note: 'To try things out',
    isPayment: false,
    atMs: clock.now(),
  })
  const scopes = orThrow(parseScopes('full_access'))
  const wanted = { organizationId, scopes, admin: true, expiresAtMs: null }
  const { plaintext } = await createKey({ database, clock, randomBytes: random }, wanted)
  return plaintext
}

async function firstOrganization(database: Database, clock: Clock, random: RandomBytes): Promise<string> {
  const found = await findOrganizationByName(database, FIRST_ORGANIZATION)
  if (found.ok) return found.value.id
  const made = await createOrganization(
    { database, clock, randomBytes: random, openAccount },
    { name: FIRST_ORGANIZATION, standing: 'established' },
  )
  return orThrow(made).id
}

function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value
  throw new Error(result.refusal.message)
}
