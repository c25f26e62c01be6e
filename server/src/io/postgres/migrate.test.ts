import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
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

async function folderOf(files: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'migrations-'))
  folders.push(folder)
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

const FIRST = { '0001-first.sql': 'create table a (x int);\ncreate table b (y int);\n' }

test('files are applied in order, once, and recorded with their SHA-256', async () => {
  await emptySchema()
  const folder = await folderOf({ ...FIRST, '0002-second.sql': 'alter table a add column z int' })
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({
    applied: ['0001-first.sql', '0002-second.sql'],
    version: 2,
  })
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({ applied: [], version: 2 })
  const [record] = await fresh.database.query<{ sha256: string }>(
    'select sha256 from schema_migrations where number = 1',
  )
  expect(record?.sha256).toBe(createHash('sha256').update(FIRST['0001-first.sql']).digest('hex'))
})

test('processes that migrate at the same time apply each file once', async () => {
  await emptySchema()
  const folder = await folderOf(FIRST)
  const results = await Promise.all([1, 2, 3].map(() => migrate(fresh.database, folder, systemClock)))
  expect(results.flatMap((result) => result.applied)).toEqual(['0001-first.sql'])
})

test('a file that fails names file, line and reason, and leaves nothing of itself', async () => {
  await emptySchema()
  const folder = await folderOf({
    ...FIRST,
    '0002-broken.sql': '-- größer 🙂\ncreate table c (x int);\ncreate tabel d (x int);\n',
  })
  const failed = migrate(fresh.database, folder, systemClock)
  expect(failed).rejects.toThrow(/0002-broken\.sql:3 failed and was rolled back: syntax error at or near "tabel"/)
  await failed.catch(() => {})
  const [left] = await fresh.database.query<{ c: string | null; a: string | null }>(
    "select to_regclass('c')::text as c, to_regclass('a')::text as a",
  )
  expect(left).toEqual({ c: null, a: 'a' })
})

test('a recorded file that was edited is refused', async () => {
  await emptySchema()
  await migrate(fresh.database, await folderOf(FIRST), systemClock)
  const edited = await folderOf({ '0001-first.sql': 'create table a (x bigint);' })
  expect(migrate(fresh.database, edited, systemClock)).rejects.toThrow(/0001-first\.sql has changed since/)
})

test('a database newer than the program is refused', async () => {
  await emptySchema()
  await migrate(fresh.database, await folderOf({ ...FIRST, '0002-next.sql': 'select 1' }), systemClock)
  expect(migrate(fresh.database, await folderOf(FIRST), systemClock)).rejects.toThrow(
    /0002-next\.sql, which this program \(up to 0001-first\.sql\) does not know: it is newer/,
  )
})

test('gaps and transaction control in files are refused before anything runs', async () => {
  await emptySchema()
  const gap = await folderOf({ ...FIRST, '0003-third.sql': 'select 1' })
  expect(migrate(fresh.database, gap, systemClock)).rejects.toThrow(/expected 0002-name\.sql/)
  const control = await folderOf({ '0001-first.sql': 'create table a (x int);\ncommit;\n' })
  expect(migrate(fresh.database, control, systemClock)).rejects.toThrow(/0001-first\.sql:2: commit is not for/)
})
