/** The tests of the rooms that hold money and keys, on the oldest PostgreSQL that Tollgate takes. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { HAS_OLDEST_POSTGRES, startOldestPostgres } from './oldestPostgres.ts'
import { TEST_POSTGRES_VARIABLE, type TestPostgres } from './postgres.ts'
import { findTests } from './runner/closure.ts'
import { until } from './until.ts'

const CHECKOUT = join(import.meta.dirname, '../..')
const ROOMS = [
  'billing/admission',
  'billing/charges',
  'billing/ledger',
  'billing/plans',
  'processes',
  'http/idempotency',
  'videos',
]
const LIMIT_MS = 280_000

let postgres: TestPostgres
beforeAll(async () => {
  if (!HAS_OLDEST_POSTGRES) return
  postgres = await startOldestPostgres()
  const database = openClient(postgres.url, { maxConnections: 1, clock: systemClock })
  await until(() =>
    database.query('select 1').then(
      () => true,
      () => false,
    ),
  )
  await database.close()
}, 60_000)
afterAll(() => postgres?.stop())

test.skipIf(!HAS_OLDEST_POSTGRES)(
  'all of them pass there (postgresql-15)',
  async () => {
    const all = await findTests(CHECKOUT, { long: false })
    const files = all.filter((file) => ROOMS.some((room) => file.startsWith(`server/src/${room}/`)))
    const environment = { ...process.env, [TEST_POSTGRES_VARIABLE]: postgres.url }
    const command = [process.execPath, 'test', '--timeout=60000', ...files.map((file) => `./${file}`)]
    const child = Bun.spawn(command, { cwd: CHECKOUT, env: environment, stdout: 'ignore', stderr: 'pipe' })
    const [said, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
    const failed = said.split('\n').filter((line) => line.startsWith('(fail)'))
    expect({ files: files.length > 20, failed, code }).toEqual({ files: true, failed: [], code: 0 })
  },
  LIMIT_MS,
)
