import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../test/freePort.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { overTcp } from '../../../test/silentProxy.ts'
import { sleep } from '../../lib/time.ts'
import { systemClock } from '../clock.ts'
import { openClient } from './client.ts'
import { identity } from './cluster.ts'
import { isConnectionFailure } from './faults.ts'
import { databaseUser } from './osUser.ts'
import { refuseTransactionPooler } from './pooler.ts'
import { newToken } from './processToken.ts'
import { openSession } from './session.ts'

const IGNORED =
  'statement_timeout,idle_in_transaction_session_timeout,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count'

const CLASS = 96

/** Debian keeps it where a user's PATH often does not look. */
const PGBOUNCER = Bun.which('pgbouncer') ?? Bun.which('/usr/sbin/pgbouncer')

let fresh: FreshDatabase
let folder: string

beforeAll(async () => {
  if (PGBOUNCER === null) throw new Error('pgbouncer is missing: apt-get install -y pgbouncer')
  fresh = await freshDatabase()
  folder = await mkdtemp(join(tmpdir(), 'tollgate-pooler-'))
  await chmod(folder, 0o711)
})
afterAll(async () => {
  await fresh.drop()
  await rm(folder, { recursive: true, force: true })
})

/** Runs PgBouncer in front of the test's database for as long as `work` takes. */
async function behindPgbouncer<T>(settings: string[], work: (url: string) => Promise<T>): Promise<T> {
  const port = await freePort()
  const target = new URL(fresh.url)
  const file = join(folder, `${port}.ini`)
  const lines = [
    '[databases]',
    `* = host=${target.searchParams.get('host')} port=${target.port} user=${target.username} password=${target.password}`,
    '[pgbouncer]',
    ...['listen_addr=127.0.0.1', `listen_port=${port}`, 'unix_socket_dir=', 'auth_type=any', ...settings],
  ]
  await writeFile(file, lines.join('\n'), { mode: 0o644 })
  const child = Bun.spawn([PGBOUNCER ?? 'pgbouncer', '-q', file], {
    ...identity(await databaseUser()),
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const url = overTcp(fresh.url, port)
  try {
    await answers(url)
    return await work(url)
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
}

/** Waits until somebody takes connections there, whatever it says to them. */
async function answers(url: string): Promise<void> {
  for (;;) {
    const database = openClient(url, { maxConnections: 1, clock: systemClock })
    const error = await database.query('select 1').catch((caught: unknown) => caught)
    await database.close()
    if (!isConnectionFailure(error) || String(error).includes('startup parameter')) return
    await sleep(systemClock, 20)
  }
}

const IGNORE = `ignore_startup_parameters=${IGNORED}`

test.each([
  ['as it comes', ['pool_mode=transaction', IGNORE]],
  ['with one connection', ['pool_mode=transaction', 'default_pool_size=1', IGNORE]],
  ['that hands connections out in turn', ['pool_mode=transaction', 'server_round_robin=1', IGNORE]],
  ['that always resets', ['pool_mode=transaction', 'server_reset_query_always=1', IGNORE]],
  ['in statement mode', ['pool_mode=statement', IGNORE]],
])(
  'PgBouncer in transaction mode is refused: %s',
  async (_, settings) => {
    await behindPgbouncer(settings, async (url) => {
      await expect(refuseTransactionPooler(url, systemClock)).rejects.toThrow(
        'leads to a connection pooler in transaction mode',
      )
    })
  },
  30_000,
)

test('a pooler that refuses our settings is told apart, with the settings it must let pass', async () => {
  await behindPgbouncer(['pool_mode=session'], async (url) => {
    await expect(refuseTransactionPooler(url, systemClock)).rejects.toThrow(IGNORED.replaceAll(',', ', '))
  })
}, 30_000)

test('PgBouncer in session mode is accepted, and sessions through it hold locks and end their own older ones', async () => {
  await behindPgbouncer(['pool_mode=session', IGNORE], async (url) => {
    await refuseTransactionPooler(url, systemClock)
    const name = { kind: 'slot', token: newToken() }
    const [older, other] = await Promise.all([openSession(url, systemClock, name), openSession(url, systemClock)])
    expect(await older.tryLock(CLASS, 1)).toBe(true)
    expect(await other.endOlder(CLASS, 1)).toBe(false)
    const next = await openSession(url, systemClock, name)
    expect(await next.tryLock(CLASS, 1)).toBe(false)
    expect(await next.endOlder(CLASS, 1)).toBe(true)
    while (!(await next.tryLock(CLASS, 1)));
    await Promise.all([older.close(), other.close(), next.close()])
  })
}, 30_000)
