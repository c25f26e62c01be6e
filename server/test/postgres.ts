/** Real PostgreSQL for tests: one throw-away server a run, one database a test file, copied from a migrated template. */

import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { startEmbedded } from '../src/infra/postgres/embedded.ts'
import { migrate } from '../src/infra/postgres/migrate.ts'

/** Names the URL of the run's server for the test files; set by the runner. */
export const TEST_POSTGRES_VARIABLE = 'TOLLGATE_TEST_POSTGRES'

export const MIGRATIONS_FOLDER = join(import.meta.dirname, '../migrations')

const TEMPLATE = 'tollgate_template'
/** Any number: only test runs take this lock, in the server's first database. */
const TEMPLATE_LOCK = 740_400

export interface TestPostgres {
  /** Of the superuser. */
  readonly url: string
  stop(): Promise<void>
}

/** Starts a server in a temporary folder. Without `durable` a kill -9 loses nothing, but a power cut may lose all. */
export async function startTestPostgres(options: { durable?: boolean } = {}): Promise<TestPostgres> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  const dataDir = join(folder, 'data')
  // mkdtemp makes a folder that only we can enter; as root, the database runs as somebody else.
  await Bun.$`chmod 711 ${folder}`.quiet()
  const server = await startEmbedded({
    dataDir,
    clock: systemClock,
    log: (message) => console.error(message),
    throwAway: options.durable !== true,
  })
  return {
    // Each test file makes and drops a database, which the role of the gateways may not.
    url: server.superuserUrl,
    async stop() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export interface FreshDatabase {
  /** A pool of up to 4 connections. */
  readonly database: Database
  readonly url: string
  /** Closes the pool and removes the database. Call it in `afterAll`. */
  drop(): Promise<void>
}

/** Makes an empty, migrated database for a test file. Without a runner it starts, and at `drop` stops, its own server. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const given = process.env[TEST_POSTGRES_VARIABLE]
  const own = given === undefined || given === '' ? await startTestPostgres() : null
  const server = own?.url ?? given ?? ''
  const name = `test_${randomBytes(8).toString('hex')}`
  await withClient(server, async (admin) => {
    await makeTemplate(admin, server)
    await admin.query(`create database ${name} template ${TEMPLATE} strategy file_copy`)
  })
  const url = databaseUrl(server, name)
  const database = openClient(url, { maxConnections: 4, clock: systemClock, applicationName: name })
  return {
    database,
    url,
    async drop() {
      await database.close()
      await withClient(server, (admin) => admin.query(`drop database if exists ${name} with (force)`))
      await own?.stop()
    },
  }
}

/** Makes the template once a run: the first comer migrates it, the others wait. It gets its name when it is whole. */
async function makeTemplate(admin: Database, server: string): Promise<void> {
  // One connection, so that the session's lock is this session's.
  await admin.query('select pg_advisory_lock($1::int8)', [TEMPLATE_LOCK])
  try {
    const found = await admin.query('select 1 from pg_database where datname = $1', [TEMPLATE])
    if (found.length > 0) return
    const draft = `${TEMPLATE}_draft`
    await admin.query(`drop database if exists ${draft} with (force)`)
    await admin.query(`create database ${draft}`)
    await withClient(databaseUrl(server, draft), (database) => migrate(database, MIGRATIONS_FOLDER, systemClock))
    await admin.query(`alter database ${draft} rename to ${TEMPLATE}`)
  } finally {
    await admin.query('select pg_advisory_unlock($1::int8)', [TEMPLATE_LOCK])
  }
}

/** Calls `work` with one connection to the database at `url`, and closes it. */
export function withClient<T>(url: string, work: (database: Database) => Promise<T>): Promise<T> {
  return closingAfter(openClient(url, { maxConnections: 1, clock: systemClock }), work)
}

/** Calls `work` with `database`, and closes it, whatever becomes of the work. */
export async function closingAfter<T>(database: Database, work: (database: Database) => Promise<T>): Promise<T> {
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.toString()
}
