import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NUMBERED_RECORD } from '../../../test/numberedRecord.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
import { openClient } from './client.ts'
import type { Database } from './database.ts'
import { migrate } from './migrate.ts'

let fresh: FreshDatabase
const folders: string[] = []

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(async () => {
  await fresh.drop()
  for (const folder of folders) await rm(folder, { recursive: true })
})

async function emptySchema() {
  await fresh.database.query('drop schema public cascade')
  await fresh.database.query('create schema public')
}

async function tables(): Promise<string[]> {
  const rows = await fresh.database.query<{ tablename: string }>(
    "select tablename from pg_tables where schemaname = 'public'",
  )
  return rows.map(({ tablename }) => tablename)
}

async function folderOf(files: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'migrations-'))
  folders.push(folder)
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

const FIRST = { '20300101-0000-first.sql': 'create table a (x int);\ncreate table b (y int);\n' }

test('files are applied in order, once, and recorded with their SHA-256', async () => {
  await emptySchema()
  const folder = await folderOf({ ...FIRST, '20300102-0930-second.sql': 'alter table a add column z int' })
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({
    applied: ['20300101-0000-first.sql', '20300102-0930-second.sql'],
  })
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({ applied: [] })
  const [record] = await fresh.database.query<{ sha256: string }>(
    "select sha256 from schema_migrations where name = '20300101-0000-first.sql'",
  )
  expect(record?.sha256).toBe(createHash('sha256').update(FIRST['20300101-0000-first.sql']).digest('hex'))
})

test('a server that is too old is refused in one sentence, and nothing is made there', async () => {
  await emptySchema()
  const old: Database = {
    ...fresh.database,
    transaction: (work) =>
      fresh.database.transaction((tx) =>
        work({
          ...tx,
          query: (text, parameters) =>
            tx.query(
              text
                .replace("current_setting('server_version')", "'14.9'")
                .replace("current_setting('server_version_num')", "'140009'"),
              parameters,
            ),
        }),
      ),
  }
  const migrating = migrate(old, await folderOf(FIRST), systemClock)
  expect(migrating).rejects.toThrow('This server is PostgreSQL 14.9, and Tollgate needs 15 or newer.')
  await migrating.catch(() => {})
  expect(await tables()).toEqual([])
})

test('processes that migrate at the same time apply each file once', async () => {
  await emptySchema()
  const folder = await folderOf(FIRST)
  const results = await Promise.all([1, 2, 3].map(() => migrate(fresh.database, folder, systemClock)))
  expect(results.flatMap((result) => result.applied)).toEqual(['20300101-0000-first.sql'])
})

test('a file that fails names file, line and reason, and leaves nothing of itself', async () => {
  await emptySchema()
  const folder = await folderOf({
    ...FIRST,
    '20300102-0930-broken.sql': '-- größer 🙂\ncreate table c (x int);\ncreate tabel d (x int);\n',
  })
  const failed = migrate(fresh.database, folder, systemClock)
  expect(failed).rejects.toThrow(
    /20300102-0930-broken\.sql:3 failed and was rolled back: syntax error at or near "tabel"/,
  )
  await failed.catch(() => {})
  const [left] = await fresh.database.query<{ c: string | null; a: string | null }>(
    "select to_regclass('c')::text as c, to_regclass('a')::text as a",
  )
  expect(left).toEqual({ c: null, a: 'a' })
})

test('a file that takes longer than a statement may names the command that allows it more', async () => {
  await emptySchema()
  const folder = await folderOf({ ...FIRST, '20300102-0000-long.sql': 'select pg_sleep(60);' })
  const hasty = openClient(fresh.url, { maxConnections: 1, clock: systemClock, statementTimeoutMs: 500 })
  await expect(migrate(hasty, folder, systemClock)).rejects.toThrow(
    /^Migration 20300102-0000-long.sql failed and was rolled back: .*timeout\. Run "tollgate migrate", which allows each statement 12 hours, and then start again\.$/,
  )
  await hasty.close()
})

test('a recorded file that was edited is refused', async () => {
  await emptySchema()
  await migrate(fresh.database, await folderOf(FIRST), systemClock)
  const edited = await folderOf({ '20300101-0000-first.sql': 'create table a (x bigint);' })
  expect(migrate(fresh.database, edited, systemClock)).rejects.toThrow(/20300101-0000-first\.sql has changed since/)
})

test('a database newer than the program is refused', async () => {
  await emptySchema()
  await migrate(fresh.database, await folderOf({ ...FIRST, '20300102-0930-next.sql': 'select 1' }), systemClock)
  expect(migrate(fresh.database, await folderOf(FIRST), systemClock)).rejects.toThrow(
    /20300102-0930-next\.sql, which this program \(up to 20300101-0000-first\.sql\) does not know: it is newer/,
  )
})

test('a file that was merged late is applied, also after later ones', async () => {
  await emptySchema()
  const later = { ...FIRST, '20300103-1200-third.sql': 'create table c (x int)' }
  await migrate(fresh.database, await folderOf(later), systemClock)
  const merged = await folderOf({ ...later, '20300102-0930-second.sql': 'alter table a add column z int' })
  expect(await migrate(fresh.database, merged, systemClock)).toEqual({ applied: ['20300102-0930-second.sql'] })
})

describe('before anything runs', () => {
  test.each([
    ['0002-caps.sql'],
    ['20300102-caps.sql'],
    ['20301302-0930-caps.sql'],
    ['20300102-2460-caps.sql'],
    ['20300102-0930-Caps.sql'],
    ['20300102-0930.sql'],
  ])('the name %s is refused', async (name) => {
    await emptySchema()
    const folder = await folderOf({ ...FIRST, [name]: 'select 1' })
    const whatToDo = `${join(folder, name)}: a migration is named by date, time and subject, such as 20261122-0900-jobs.sql`
    await expect(migrate(fresh.database, folder, systemClock)).rejects.toThrow(whatToDo)
    expect(await tables()).toEqual([])
  })

  test('two files of one time are refused', async () => {
    await emptySchema()
    const folder = await folderOf({ ...FIRST, '20300101-0000-second.sql': 'select 1' })
    await expect(migrate(fresh.database, folder, systemClock)).rejects.toThrow(
      /20300101-0000-second\.sql: 20300101-0000-first\.sql has the same time\. Give the newer one a later time\./,
    )
    expect(await tables()).toEqual([])
  })

  test('transaction control in a file is refused', async () => {
    await emptySchema()
    const control = await folderOf({ '20300101-0000-first.sql': 'create table a (x int);\ncommit;\n' })
    await expect(migrate(fresh.database, control, systemClock)).rejects.toThrow(/first\.sql:2: commit is not for/)
    expect(await tables()).toEqual([])
  })

  test('a database of the time before the baseline is refused and stays as it was', async () => {
    await emptySchema()
    await fresh.database.query(NUMBERED_RECORD)
    const migrating = migrate(fresh.database, await folderOf(FIRST), systemClock)
    await expect(migrating).rejects.toThrow(
      /^This database was made by [^.]*: start with a new data directory [^.]*\.$/,
    )
    expect(await tables()).toEqual(['schema_migrations'])
  })
})
