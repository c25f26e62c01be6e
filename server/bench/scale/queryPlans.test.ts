/**
 * Every statement of a gateway's day, explained on books of many organizations, where a table is read from end to end only when no
 * index serves.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/infra/postgres/embedded.ts'
import { migrate } from '../../src/infra/postgres/migrate.ts'
import { MIGRATIONS_FOLDER, withClient } from '../../test/postgres.ts'
import { prepareExplaining, readExplained, startExplaining } from './explained.ts'
import { fillBooks } from './fill.ts'
import { workForADay } from './gatewayWork.ts'
import { readsByText, type StatementReads } from './queryPlans.ts'

const SIZE = { organizations: 300, charges: 3_000, days: 20 }
const NOW_MS = Date.UTC(2030, 1, 10, 23, 50)
const LIMIT_MS = 120_000
/** No index serves it. */
const PLANTED = "select count(*) from organizations where name <> 'x'"

let folder: string
let server: EmbeddedServer
let reads: StatementReads[]
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-plans-'))
  await Bun.$`chmod 711 ${folder}`.quiet()
  const options = { dataDir: join(folder, 'data'), clock: systemClock, log: () => {}, throwAway: true }
  const first = await startEmbedded(options)
  await withClient(first.superuserUrl, prepareExplaining)
  await first.stop()
  server = await startEmbedded(options)
  await withClient(server.url, async (database) => {
    await migrate(database, MIGRATIONS_FOLDER, systemClock)
    await fillBooks(database, SIZE, NOW_MS)
  })
  reads = await withClient(server.superuserUrl, async (superuser) => {
    await startExplaining(superuser, { seqScans: false })
    await withClient(server.url, async (database) => {
      await workForADay({ databaseUrl: server.url, database, nowMs: NOW_MS })
      await database.query(PLANTED)
    })
    return readsByText(await readExplained(superuser))
  })
}, LIMIT_MS)
afterAll(async () => {
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
}, LIMIT_MS)

/** Enough for any page of a list, and far fewer than there are organizations. */
const READ_MOST = 30

/** They look at all rows of a page, of a day or of an account because that is what they are for. */
const READ_MORE: readonly (readonly [fragment: string, why: string])[] = [
  ['as stated, (e.sum - d.sum)', 'a page of the verification: all sums of each organization'],
  ['as booked, (a.balance_microcents - s.spent)', 'the same of balances'],
  ['coalesce(hours, 0)::bigint as hours', 'the same of a day'],
  ['to_json(charged) as charged', 'charges of some hours beside their rollups'],
  ["encode(price_hash, 'hex') as price_hash, prompt_tokens as prompt", 'a page of charges beside their prices'],
  ['insert into posted_sums', 'the charges of a day that is closed'],
  ['with taken as ( select slot from processes', 'a renewal folds the minutes of its organizations'],
  ["to_date(substring(c.relname from 'charges_", 'the catalog: one partition of charges a day'],
]

test('a day of a gateway has statements of every room, and the harness sees what they read', () => {
  expect(reads.length).toBeGreaterThan(110)
  const planted = reads.find(({ text }) => text === PLANTED)
  expect(planted).toMatchObject({ times: 1, read: SIZE.organizations, returned: 1, scanned: ['organizations'] })
})

test('no table is read from end to end but one of an hour', () => {
  const scanned = reads.filter(({ text }) => text !== PLANTED).flatMap((each) => each.scanned)
  // One row for each organization whose admins changed something in the last hour, removed once an hour.
  expect(new Set(scanned)).toEqual(new Set(['audit_budgets']))
})

test('no statement reads many rows but those that verify, close or fold', () => {
  const many = reads.filter(({ text, read }) => read > READ_MOST && text !== PLANTED)
  const unexplained = many.filter(({ text }) => !READ_MORE.some(([fragment]) => text.includes(fragment)))
  expect(unexplained.map(({ text, read, returned }) => `${read} rows for ${returned}: ${text}`)).toEqual([])
})
