import { openAccount } from '../billing/admission/balance/balance.ts'
import { grantCredit } from '../billing/ledger/grantCredit.ts'
import { createKey } from '../identity/keys/create.ts'
import { listKeyIds } from '../identity/keys/list.ts'
import { parseScopes } from '../identity/keys/scopes.ts'
import { createOrganization } from '../identity/organizations/create.ts'
import { findOrganizationByName, hasDeletedOrganization } from '../identity/organizations/find.ts'
import { FIRST_ORGANIZATION, inOneFirstStart } from '../identity/organizations/oneFirstStart.ts'
import type { Database, Queryable, Transaction } from '../infra/postgres/database.ts'
import type { RandomBytes } from '../lib/ids.ts'
import { MICROCENTS_PER_DOLLAR } from '../lib/money.ts'
import type { Result } from '../lib/result.ts'
import type { Clock } from '../lib/time.ts'

/** The first organization gets these to try things out with. */
const FIRST_KEY = 'first key'
const FIRST_CREDIT_DOLLARS = 25n

/**
 * On the first start makes an organization with credit and an admin's key, all in one transaction. `keep` is given the key before it
 * comes into force: when it throws, nothing is made. Returns the key; null on every later start, also where that organization was
 * deleted. Of several first starts at once, one makes all of this, and the others go on as later ones.
 */
export async function makeFirstKey(
  database: Database,
  clock: Clock,
  random: RandomBytes,
  keep: (plaintext: string) => Promise<void>,
): Promise<string | null> {
  if (!(await isFirstStart(database))) return null
  return inOneFirstStart(database, async (tx) => {
    // Another first start may have been faster.
    if (!(await isFirstStart(tx))) return null
    const organizationId = await firstOrganization(tx, clock, random)
    // Posted once, whatever happened before: its source is unique.
    await grantCredit(tx, random, {
      organizationId,
      amountMicrocents: FIRST_CREDIT_DOLLARS * MICROCENTS_PER_DOLLAR,
      source: `first-start:${organizationId}`,
      note: 'To try things out',
      isPayment: false,
      atMs: clock.now(),
    })
    const scopes = orThrow(parseScopes('full_access'))
    const wanted = { organizationId, name: FIRST_KEY, scopes, admin: true, expiresAtMs: null }
    const { plaintext } = await createKey({ database: tx, clock, randomBytes: random }, wanted)
    await keep(plaintext)
    return plaintext
  })
}

/** Returns whether nothing was made yet, or a start of an earlier version was cut off before it made the key. */
async function isFirstStart(database: Queryable): Promise<boolean> {
  if (await hasDeletedOrganization(database)) return false
  const found = await findOrganizationByName(database, FIRST_ORGANIZATION)
  return !found.ok || (await listKeyIds(database, found.value.id, null, 1)).length === 0
}

async function firstOrganization(tx: Transaction, clock: Clock, random: RandomBytes): Promise<string> {
  const found = await findOrganizationByName(tx, FIRST_ORGANIZATION)
  if (found.ok) return found.value.id
  const wanted = { name: FIRST_ORGANIZATION, standing: 'established' } as const
  return (await createOrganization(tx, { clock, randomBytes: random, openAccount }, wanted)).id
}

function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value
  throw new Error(result.refusal.message)
}
