/** The files of `server/migrations`, each applied to what the ones before it made. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { migrate } from '../../src/infra/postgres/migrate.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { readSchema } from './catalog.ts'

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

/** Tables and columns whose names are other ones since the ten files before the baseline. */
const RENAMED: readonly (readonly [string, string])[] = [
  ['allotments', 'account_shares'],
  ['allotted_microcents', 'shares_microcents'],
  ['spent_slices', 'unfolded_spend'],
  ['usage_rollups', 'usage_hours'],
  ['upstream_job', 'provider_job'],
  ['target_upstream', 'target_provider'],
]
/** The lines of the baseline alone: the cancellations of an hour are counted (C3). */
const ADDED = [
  'videos ## CREATE INDEX ON public.videos USING btree (organization_id, cancelled_in_progress_at) WHERE (cancelled_in_progress_at IS NOT NULL)',
  'videos.cancelled_in_progress_at timestamp with time zone',
]

test('the baseline makes what the ten files before it made, apart from names', async () => {
  const text = await readFile(join(import.meta.dirname, 'tenFiles.txt'), 'utf8')
  const renamed = RENAMED.reduce((lines, [before, after]) => lines.replaceAll(before, after), text.trimEnd())
  const ofMigrations = /^migrations[. ]/
  const made = (await readSchema(fresh.database)).filter((line) => !ofMigrations.test(line))
  expect(made).toEqual([...renamed.split('\n').filter((line) => !ofMigrations.test(line)), ...ADDED].sort())
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
