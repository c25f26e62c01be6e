/** A database of the time before the baseline is refused by the real command, in one sentence that says what to do. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { openDatabase } from '../../src/infra/postgres/open.ts'
import { NUMBERED_RECORD } from '../numberedRecord.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { type Ended, typeCommand } from './terminal.ts'

// Each command starts PostgreSQL and stops it.
setDefaultTimeout(120_000)

let fresh: FreshDatabase
let dataDir: string

beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query('drop schema public cascade')
  await fresh.database.query('create schema public')
  await fresh.database.query(NUMBERED_RECORD)
  dataDir = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  // Started by root, PostgreSQL runs as somebody else, who must enter the folder.
  await chmod(dataDir, 0o711)
  const opened = await openDatabase({
    dataDir,
    databaseUrl: null,
    clock: systemClock,
    role: 'command',
    log: () => {},
  })
  await opened.database.query(NUMBERED_RECORD)
  await opened.release()
})
afterAll(async () => {
  await fresh?.drop()
  if (dataDir !== undefined) await rm(dataDir, { recursive: true, force: true })
})

const SENTENCE =
  'This database was made by a version of Tollgate from before its first release and cannot be upgraded: ' +
  'start with a new data directory (--data-dir), or name an empty database in DATABASE_URL if you use your own PostgreSQL.'

const type = (words: readonly string[], environment: Record<string, string> = {}): Promise<Ended> =>
  typeCommand([...words, '--data-dir', dataDir], { folder: dataDir, environment }).ended

/** Exit code 1, and the sentence is all that a person reads. A server also logs that it stopped, as JSON. */
function expectRefused({ code, stdout, stderr }: Ended): void {
  const lines = stderr.split('\n').filter((line) => !/^\{.*"level":"info".*"msg":"stopped"\}$/.test(line))
  expect({ code, stdout, lines }).toEqual({ code: 1, stdout: '', lines: [`tollgate: ${SENTENCE}`, ''] })
}

const SERVE = ['serve', '--port', '0', '--admin-port', '0']

test.each([[SERVE], [['migrate']], [['orgs', 'list']]])('an old data directory: %p', async (words) => {
  expectRefused(await type(words))
})

test.each([[SERVE], [['migrate']]])('an old database of the operator: %p', async (words) => {
  expectRefused(await type(words, { DATABASE_URL: fresh.url }))
})

test('with --json the same sentence is one document', async () => {
  const { code, stdout, stderr } = await type(['migrate', '--json'])
  expect([code, stdout]).toEqual([1, ''])
  expect(JSON.parse(stderr)).toMatchObject({ error: { message: SENTENCE } })
})
