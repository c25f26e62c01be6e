import { openAccount } from '../src/billing/admission/balance/balance.ts'
import { grantCredit } from '../src/billing/ledger/grantCredit.ts'
import { inTransaction } from '../src/identity/audit/inTransaction.ts'
import { createKey } from '../src/identity/keys/create.ts'
import { parseScopes } from '../src/identity/keys/scopes.ts'
import { createOrganization } from '../src/identity/organizations/create.ts'
import { systemClock } from '../src/infra/clock.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../src/lib/money.ts'
import type { Clock } from '../src/lib/time.ts'

export interface TestKey {
  readonly id: string
  readonly key: string
  readonly organizationId: string
}

export interface CustomerOptions {
  /** Of credit; $25 unless given. */
  readonly cents?: number
  /** Established unless given; with new, the credit is no payment. */
  readonly standing?: 'new' | 'established'
  readonly scopes?: string
  readonly admin?: boolean
  readonly expiresAtMs?: number
}

/** Makes an organization with credit and a key, beside whatever process serves the database. */
export async function makeCustomer(
  database: Database,
  { cents = 2_500, standing = 'established', scopes = 'full_access', admin = false, expiresAtMs }: CustomerOptions = {},
  clock: Clock = systemClock,
): Promise<TestKey> {
  const random = systemRandom()
  const unique = uuidV7(systemClock.now(), random)
  const made = await inTransaction(database, null, (tx) =>
    createOrganization(tx, { clock, randomBytes: random, openAccount }, { name: `customer ${unique}`, standing }),
  )
  if (!made.ok) throw new Error(made.refusal.message)
  const organizationId = made.value.id
  if (cents > 0) {
    await database.transaction((tx) =>
      grantCredit(tx, random, {
        organizationId,
        amountMicrocents: BigInt(cents) * MICROCENTS_PER_CENT,
        source: `test:${unique}`,
        note: null,
        isPayment: false,
        atMs: clock.now(),
      }),
    )
  }
  return makeKey(
    database,
    organizationId,
    { scopes, admin, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) },
    clock,
  )
}

/** Makes a further key of an organization. */
export async function makeKey(
  database: Database,
  organizationId: string,
  { scopes = 'full_access', admin = false, expiresAtMs }: Omit<CustomerOptions, 'cents' | 'standing'> = {},
  clock: Clock = systemClock,
): Promise<TestKey> {
  const parsed = parseScopes(scopes)
  if (!parsed.ok) throw new Error(parsed.refusal.message)
  const { record, plaintext } = await createKey(
    { database, clock, randomBytes: systemRandom() },
    { organizationId, scopes: parsed.value, admin, expiresAtMs: expiresAtMs ?? null },
  )
  return { id: record.id, key: plaintext, organizationId }
}
