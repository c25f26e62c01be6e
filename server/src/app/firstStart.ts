import { openAccount } from '../billing/admission/balance/balance.ts'
import { grantCredit } from '../billing/ledger/grantCredit.ts'
import { createKey } from '../identity/keys/create.ts'
import { listKeys } from '../identity/keys/list.ts'
import { parseScopes } from '../identity/keys/scopes.ts'
import { createOrganization } from '../identity/organizations/create.ts'
import { findOrganizationByName, hasDeletedOrganization } from '../identity/organizations/find.ts'
import type { Database } from '../infra/postgres/database.ts'
import type { RandomBytes } from '../lib/ids.ts'
import { MICROCENTS_PER_DOLLAR } from '../lib/money.ts'
import type { Result } from '../lib/result.ts'
import type { Clock } from '../lib/time.ts'

/** The organization that a first start makes, and what it gets to try things out with. */
const FIRST_ORGANIZATION = 'default'
const FIRST_KEY = 'first key'
const FIRST_CREDIT_DOLLARS = 25n

/**
 * On the first start makes an organization with credit and an admin's key. `keep` is given the key before it comes into
 * force: when it throws, there is no key. Returns the key; null on every later start, also where that organization was deleted. A start
 * that was cut off in between is completed by the next.
 */
export async function makeFirstKey(
  database: Database,
  clock: Clock,
  random: RandomBytes,
  keep: (plaintext: string) => Promise<void>,
): Promise<string | null> {
  if (await hasDeletedOrganization(database)) return null
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
  const wanted = { organizationId, name: FIRST_KEY, scopes, admin: true, expiresAtMs: null }
  return await database.transaction(async (tx) => {
    const { plaintext } = await createKey({ database: tx, clock, randomBytes: random }, wanted)
    await keep(plaintext)
    return plaintext
  })
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
