import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../../infra/clock.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { inTransaction } from '../audit/inTransaction.ts'
import { createOrganization } from './create.ts'
import { findOrganizationByName, listOrganizationPage } from './find.ts'

const NOW_MS = Date.UTC(2030, 0, 1)

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function openAccount(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('insert into accounts (organization_id, balance_microcents) values ($1, 0)', [organizationId])
}

function create(name: string, open = openAccount) {
  const clock = { ...systemClock, now: () => NOW_MS }
  return inTransaction(fresh.database, null, (tx) =>
    createOrganization(tx, { clock, randomBytes, openAccount: open }, { name, standing: 'established' }),
  )
}

async function accounts(): Promise<number> {
  return (await fresh.database.query('select 1 from accounts')).length
}

test('an organization is made with its account, and found by its name however that is written', async () => {
  const made = await create('Caf\u00e9')
  expect(made).toMatchObject({ ok: true, value: { name: 'Caf\u00e9', standing: 'established', createdAtMs: NOW_MS } })
  if (!made.ok) return
  expect(await accounts()).toBe(1)
  expect(await findOrganizationByName(fresh.database, 'Cafe\u0301')).toEqual(made)
  expect(await listOrganizationPage(fresh.database, null, 10)).toEqual([made.value])
})

test('where the account can’t be opened there is no organization either', async () => {
  const failing = () => Promise.reject(new Error('no account'))
  await expect(create('half', failing)).rejects.toThrow('no account')
  expect(await findOrganizationByName(fresh.database, 'half')).toMatchObject({ refusal: { code: 'not_found' } })
})

test('of many that want one name at the same time exactly one gets it, and one account is opened', async () => {
  const before = await accounts()
  const results = await Promise.all(Array.from({ length: 8 }, () => create('wanted')))
  expect(results.filter((result) => result.ok)).toHaveLength(1)
  for (const result of results) {
    if (result.ok) continue
    expect(result.refusal).toMatchObject({ code: 'validation_failed', param: 'name' })
    expect(result.refusal.message).toBe('There is already an organization named "wanted".')
  }
  expect(await accounts()).toBe(before + 1)
})

test('a name that is not valid is refused before the database is asked', async () => {
  expect(await create(' x')).toMatchObject({ ok: false, refusal: { param: 'name' } })
})
