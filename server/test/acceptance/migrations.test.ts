/** A database of the first schema, with books in it, becomes one of today's, whose books agree and go on. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { priceHash, priceToJson } from '../../src/catalog/price.ts'
import { systemClock } from '../../src/io/clock.ts'
import { migrate } from '../../src/io/postgres/migrate.ts'
import { toHex } from '../../src/kernel/ids.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp, utcDay } from '../../src/kernel/time.ts'
import { readFigures } from '../../src/money/accounts/figures.ts'
import { foldSlot } from '../../src/money/accounts/refill.ts'
import { verifyAll } from '../../src/money/ledger/verifyAll.ts'
import { priceTokens } from '../../src/money/pricing.ts'
import { ensureChargePartition, findImbalances } from '../../src/money/store.ts'
import { findOrganizationByName } from '../../src/organizations/find.ts'
import { callOnce } from '../moneyGates.ts'
import { FastClock, openTill } from '../moneyHouse.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'

const FOLDER = join(import.meta.dirname, '../../migrations')
const NOON_MS = Date.UTC(2030, 1, 15, 12)
const CREDIT = 5_000_000_000n
/** What slot 0 was granted beyond what it has spent. */
const UNSPENT = 1_000_000n
const PRICE = {
  kind: 'tokens' as const,
  inputMicrocents: 123_456_789n,
  outputMicrocents: 987_654_321n,
  cachedInputMicrocents: 23_456_789n,
}
const IDS = {
  busy: '01900000-0000-7000-8000-000000000001',
  trial: '01900000-0000-7000-8000-000000000002',
  paid: '01900000-0000-7000-8000-000000000003',
  empty: '01900000-0000-7000-8000-000000000004',
}
const KEY = '01900000-0000-7000-8000-0000000000aa'

let fresh: FreshDatabase
let first: string
/** What the busy organization was charged, by UTC day. */
const spent = new Map<string, bigint>()

beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query('drop schema public cascade')
  await fresh.database.query('create schema public')
  first = await mkdtemp(join(tmpdir(), 'migrations-'))
  await copyFile(join(FOLDER, '0001-spine.sql'), join(first, '0001-spine.sql'))
  await migrate(fresh.database, first, systemClock)
  await fillFirstSchema()
})
afterAll(async () => {
  await fresh.drop()
  await rm(first, { recursive: true })
})

/** Books as the first version kept them: some of what was charged is folded into the balance, the rest by slot. */
async function fillFirstSchema(): Promise<void> {
  const { database } = fresh
  const made = toTimestamp(NOON_MS - 2 * DAY_MS)
  await database.query(
    `insert into organizations (id, name, standing, created_at, first_paid_at) values
       ('${IDS.busy}', 'busy', 'established', '${made}', null), ('${IDS.trial}', 'trial', 'new', '${made}', null),
       ('${IDS.paid}', 'paid', 'new', '${made}', '${made}'), ('${IDS.empty}', 'empty', 'established', '${made}', null)`,
  )
  await database.query(
    `insert into api_keys (id, organization_id, hash, scopes, admin, created_at)
     values ('${KEY}', '${IDS.busy}', decode(repeat('ab', 32), 'hex'), 'full_access', true, '${made}')`,
  )
  const hash = toHex(priceHash(PRICE))
  await database.query(`insert into price_versions values (decode('${hash}', 'hex'), $1::text::jsonb, '${made}')`, [
    priceToJson(PRICE),
  ])
  const bySlot = [0n, 0n]
  let folded = 0n
  for (let number = 0; number < 60; number += 1) {
    // From January into February, and up to this minute.
    const atMs = number < 45 ? NOON_MS - number * 11 * HOUR_MS : NOON_MS - (number - 44) * MINUTE_MS
    const usage = { promptTokens: 900 + number, cachedPromptTokens: 100, completionTokens: 31 * number }
    const cost = priceTokens(PRICE, usage)
    const slot = number % 2
    await ensureChargePartition(database, atMs)
    await database.query(
      `insert into charges values ('${toTimestamp(atMs)}', '01900000-0000-7000-9000-${String(number).padStart(12, '0')}',
         '${IDS.busy}', '${KEY}', 'svc/test', 'serverless', decode('${hash}', 'hex'), ${usage.promptTokens},
         ${usage.cachedPromptTokens}, ${usage.completionTokens}, false, ${cost}, 'mock/test', 'completed', '${toTimestamp(atMs)}')`,
    )
    await database.query(
      `insert into usage_rollups as r values ('${IDS.busy}', date_bin('1 hour', '${toTimestamp(atMs)}'::timestamptz, 'epoch'),
         'svc/test', 'serverless', '${KEY}', ${slot}, 1, ${usage.promptTokens}, ${usage.cachedPromptTokens},
         ${usage.completionTokens}, ${cost})
       on conflict (organization_id, hour, model, tier, key_id, slot) do update set requests = r.requests + 1,
         prompt_tokens = r.prompt_tokens + excluded.prompt_tokens, completion_tokens = r.completion_tokens + excluded.completion_tokens,
         cached_prompt_tokens = r.cached_prompt_tokens + excluded.cached_prompt_tokens, cost_microcents = r.cost_microcents + excluded.cost_microcents`,
    )
    spent.set(utcDay(atMs), (spent.get(utcDay(atMs)) ?? 0n) + cost)
    if (number < 40) folded += cost
    else bySlot[slot] = (bySlot[slot] ?? 0n) + cost
  }
  const [left = 0n, right = 0n] = bySlot
  await database.query(
    `insert into ledger_entries select gen_random_uuid(), id::uuid, ${CREDIT}, 'credit', 'test:' || id, null, '${made}'
     from unnest(array['${IDS.busy}', '${IDS.trial}', '${IDS.paid}']) as id`,
  )
  await database.query(
    `insert into accounts values ('${IDS.busy}', ${CREDIT - folded}, ${left + UNSPENT + right}), ('${IDS.trial}', ${CREDIT}, 0),
       ('${IDS.paid}', ${CREDIT}, 0), ('${IDS.empty}', 0, 0)`,
  )
  await database.query(
    `insert into allotments values ('${IDS.busy}', 0, ${left + UNSPENT}, ${left}), ('${IDS.busy}', 1, ${right}, ${right})`,
  )
  await database.query(`insert into processes values (0, '${made}'), (1, '${made}')`)
}

async function disagreements(): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const each of verifyAll({ database: fresh.database, pause: async () => {} })) found.push(each)
  return [...found, ...(await findImbalances(fresh.database))]
}

test('books of the first schema are the same after all migrations, agree, and are spent from', async () => {
  const { database } = fresh
  const files = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort()
  expect((await migrate(database, FOLDER, systemClock)).applied).toEqual(files.slice(1))
  expect(await disagreements()).toEqual([])

  const all = [...spent.values()].reduce((sum, cost) => sum + cost, 0n)
  const ofMonth = [...spent].reduce((sum, [day, cost]) => sum + (day >= '2030-02-01' ? cost : 0n), 0n)
  expect(ofMonth).toBeLessThan(all)
  expect(await readFigures(database, IDS.busy, NOON_MS)).toMatchObject({
    balanceMicrocents: CREDIT - all,
    reservedMicrocents: UNSPENT,
    daySpentMicrocents: spent.get(utcDay(NOON_MS)),
    monthSpentMicrocents: ofMonth,
    isNew: false,
    monthlyLimitMicrocents: null,
    enforcement: 'block_launch',
  })
  const areNew = []
  for (const id of [IDS.trial, IDS.paid, IDS.empty]) areNew.push((await readFigures(database, id, NOON_MS))?.isNew)
  expect(areNew).toEqual([true, false, false])
  expect(await findOrganizationByName(database, 'busy')).toMatchObject({ value: { notifyAddresses: [] } })

  // What the processes of before had been granted is free once their slots are folded; calls go on from there.
  for (const slot of [0, 1]) await database.transaction((tx) => foldSlot(tx, slot, NOON_MS))
  const till = openTill(database, 2, new FastClock(NOON_MS, 1))
  expect(await callOnce(till, IDS.busy, 1_000_000n)).toBe('charged')
  await till.writer.refill(till.wallet(IDS.busy), 0n, { kind: 'recall' })
  expect(await readFigures(database, IDS.busy, NOON_MS)).toMatchObject({
    balanceMicrocents: CREDIT - all - 1_000_000n,
    reservedMicrocents: 0n,
  })
  expect(await findImbalances(database)).toEqual([])
  // Who never had anything is not told that there is nothing.
  expect(await callOnce(till, IDS.empty, 1n)).toBe('insufficient_balance')
  expect(await database.query('select 1 from notices')).toEqual([])
})
