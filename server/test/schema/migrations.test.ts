/** The files of `server/migrations`, each applied to what the ones before it made. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { migrate } from '../../src/infra/postgres/migrate.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'

const FOLDER = join(import.meta.dirname, '../../migrations')
const BASELINE = '20261122-0000-baseline.sql'

let fresh: FreshDatabase
let folder: string

beforeAll(async () => {
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'migrations-'))
  await fresh.database.query('drop schema public cascade')
  await fresh.database.query('create schema public')
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true })
})

const tables = async () =>
  (
    await fresh.database.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = 'public'`)
  ).map(({ name }) => name)

test('the baseline applies to an empty database', async () => {
  await cp(join(FOLDER, BASELINE), join(folder, BASELINE))
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({ applied: [BASELINE] })
  expect(await tables()).toEqual(expect.arrayContaining(['organizations', 'accounts', 'charges', 'notice_mails']))
})

test('every later file applies to a database that the baseline made; mails become jobs', async () => {
  const later = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql') && name > BASELINE).sort()
  await cp(FOLDER, folder, { recursive: true })
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({ applied: later })
  const made = await tables()
  expect([made.includes('jobs'), made.includes('notice_mails')]).toEqual([true, false])
})

test('a file that is added runs on a database that has all the others', async () => {
  const name = '20991231-2359-later.sql'
  await writeFile(join(folder, name), 'alter table organizations add column later boolean')
  expect(await migrate(fresh.database, folder, systemClock)).toEqual({ applied: [name] })
})
