/** A server that is still starting ends when it is told to, and is not ended by a request to reload. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { LOCK_CLASS } from '../../src/infra/postgres/locks.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { until } from '../until.ts'
import { typeCommand } from './terminal.ts'

setDefaultTimeout(60_000)

const OF_SERVER = `from pg_stat_activity where datname = current_database() and application_name like 'tollgate server %'`
const TRIES = `select 1 ${OF_SERVER} and query like '%pg_try_advisory_xact_lock%'`
const WAITS = `select 1 ${OF_SERVER} and wait_event_type = 'Lock'`

let fresh: FreshDatabase
let folder: string
beforeAll(async () => {
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'tollgate-starting-'))
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true })
})

function start(url: string) {
  const environment = { DATABASE_URL: url, TOLLGATE_DISCOVERY: 'off' }
  return typeCommand(['serve', '--port', '0', '--admin-port', '0'], { folder, environment })
}

/** Asks to reload, then to stop. */
async function reloadAndStop(typed: ReturnType<typeof start>): Promise<void> {
  typed.process.kill('SIGHUP')
  typed.process.kill('SIGTERM')
  const { code, stdout, stderr } = await typed.ended
  expect([code, typed.process.signalCode, stdout]).toEqual([0, null, ''])
  expect(stderr).toContain('stopped')
}

test('while its database does not answer', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}))
  const asked = new Promise((resolve) => silent.once('connection', resolve))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const typed = start(`postgres://u:p@127.0.0.1:${port}/d`)
  await asked
  await reloadAndStop(typed)
  silent.close()
})

test('while another process migrates', async () => {
  const migrating = openClient(fresh.url, { maxConnections: 1, clock: systemClock })
  await migrating.query('select pg_advisory_lock($1::int4, 0)', [LOCK_CLASS.migrations])
  const typed = start(fresh.url)
  await until(async () => (await fresh.database.query(TRIES)).length > 0)
  await reloadAndStop(typed)
  await migrating.close()
})

test('while it opens, and its database holds it up', async () => {
  const holding = openClient(fresh.url, { maxConnections: 1, clock: systemClock })
  await holding.query('begin; lock table data_keys in access exclusive mode')
  const typed = start(fresh.url)
  await until(async () => (await fresh.database.query(WAITS)).length > 0)
  await reloadAndStop(typed)
  await holding.close()
})
