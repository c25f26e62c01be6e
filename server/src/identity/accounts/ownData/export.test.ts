/** The memory of an export: one page of one list, however long the lists are. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../../../test/postgres.ts'
import { systemClock } from '../../../infra/clock.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { EXPORT_ROWS, writeOwnData } from './export.ts'

const ENTRIES = 2_100
const SESSIONS = 1_250
const ID = '01990000-0000-7000-8000-000000000001'
const PERSON = { id: ID, name: 'Ada', email: 'ada@example.com', isOperator: false }

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  const { database } = fresh
  await database.query(
    "insert into users (id, name, email, created_at, updated_at) values ($1, 'Ada', 'ada@example.com', now(), now())",
    [ID],
  )
  await database.query(
    `insert into audit_entries (id, actor_kind, actor_id, action, created_at)
     select gen_random_uuid(), 'user', $1::uuid, 'test.done', now() from generate_series(1, $2::integer)`,
    [ID, ENTRIES],
  )
  // Many of one instant: the place in the list is more than the instant.
  await database.query(
    `insert into sessions (token, user_id, expires_at, created_at, updated_at)
     select n::text, $1::uuid, now() + interval '1 day', date_trunc('hour', now()), now() from generate_series(1, $2::integer) n`,
    [ID, SESSIONS],
  )
})
afterAll(() => fresh.drop())

test('is a page at most, and nothing is asked for before what came before is taken', async () => {
  const counts: number[] = []
  const database: Queryable = {
    async query<Row>(text: string, parameters?: Parameters<Queryable['query']>[1]) {
      const rows = await fresh.database.query<Row>(text, parameters)
      counts.push(rows.length)
      return rows
    },
  }
  const source = writeOwnData({ database, clock: systemClock }, { id: ID, person: PERSON }, async () => true)
  let text = ''
  let longest = 0
  let asked = 0
  for await (const piece of source) {
    text += piece
    longest = Math.max(longest, piece.length)
    // Short lists have one query each, so that a piece follows on a few.
    expect(counts.length - asked).toBeLessThanOrEqual(3)
    asked = counts.length
  }
  expect(Math.max(...counts)).toBe(EXPORT_ROWS)
  expect(longest).toBeLessThan(EXPORT_ROWS * 600)
  const file = JSON.parse(text)
  expect([file.audit_entries.length, file.sessions.length]).toEqual([ENTRIES, SESSIONS])
  expect(new Set(file.sessions.map(({ id }: { id: string }) => id)).size).toBe(SESSIONS)
})

test('is not whole where the person is gone, or may read it no more', async () => {
  const other = { id: ID, person: { ...PERSON, id: '01990000-0000-7000-8000-000000000002' } }
  const dependencies = { database: fresh.database, clock: systemClock }
  const read = async (source: AsyncGenerator<string, void>) => {
    let text = ''
    for await (const piece of source) text += piece
    return text
  }
  await expect(read(writeOwnData(dependencies, other, async () => true))).rejects.toThrow('the person is gone')
  let pages = 0
  const isStillAllowed = async () => {
    pages += 1
    return pages < 3
  }
  await expect(read(writeOwnData(dependencies, { id: ID, person: PERSON }, isStillAllowed))).rejects.toThrow(
    'has ended',
  )
})
