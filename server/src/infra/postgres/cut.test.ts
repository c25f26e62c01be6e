/** The network between a server and its PostgreSQL is cut without a word: it goes on by itself, and so does one that starts meanwhile. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock, turnUntil } from '../../../test/clock.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { type SilentProxy, startSilentProxy, throughProxy } from '../../../test/silentProxy.ts'
import { type DatabaseAddress, toAddress } from './address.ts'
import { isConnectionFailure } from './faults.ts'
import { type OpenedDatabase, openDatabase } from './open.ts'
import { openPgPool } from './pgPool.ts'
import { openSession } from './session.ts'

let fresh: FreshDatabase
let dataDir: string
let proxy: SilentProxy
let clock: TurnedClock
/** Of the server that was opened last. */
let said: string[]
let ends: string[]
const opened: OpenedDatabase[] = []
beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query('create table counted (id int primary key, times int); insert into counted values (1, 0)')
})
afterAll(() => fresh.drop())
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tollgate-cut-'))
  proxy = await startSilentProxy(fresh.url)
  clock = new TurnedClock()
})
afterEach(async () => {
  for (const each of opened.splice(0)) await each.release()
  proxy.stop()
  await rm(dataDir, { recursive: true })
})

const look = () => proxy.answered(() => fresh.database.query('select 1'))
const url = () => throughProxy(fresh.url, proxy)

function open(turned = clock): Promise<OpenedDatabase> {
  said = []
  ends = []
  return openDatabase({
    dataDir,
    databaseUrl: url(),
    clock: turned,
    role: 'server',
    log: (message) => void said.push(message),
    onLost: (reason) => void ends.push(reason),
  }).then((database) => {
    opened.push(database)
    return database
  })
}

const count = 'update counted set times = times + 1 where id = 1'

/** Process ids of the connections of a token. */
async function backendsOf({ token }: OpenedDatabase): Promise<number[]> {
  const rows = await fresh.database.query<{ pid: number }>(
    'select pid from pg_stat_activity where application_name like $1 order by pid',
    [`% ${token}`],
  )
  return rows.map(({ pid }) => pid)
}

test.each(['forgotten', 'dropped'])(
  'connections are %s: locks and rows are free again, and nobody is a rival',
  async (kind) => {
    const { database, reads, ...rest } = await open()
    await reads.query('select 1')
    // A transaction that has a row locked, and will never be heard of again.
    const reached = Promise.withResolvers<void>()
    const broken = database
      .transaction(async (tx) => {
        await tx.query(count)
        reached.resolve()
        await tx.query('select pg_sleep(0)')
        for (;;) await tx.query('select 1')
      })
      .catch((error: unknown) => error)
    await reached.promise
    const before = await backendsOf({ database, reads, ...rest })
    expect(before.length).toBeGreaterThanOrEqual(2)
    if (kind === 'forgotten') proxy.forget()
    else {
      proxy.fallSilent()
      await turnUntil(clock, () => said.some((words) => words.includes('still away')), look)
      proxy.recover()
    }
    let failure: unknown = null
    void broken.then((error) => {
      failure = error
    })
    await turnUntil(clock, () => failure !== null && said.some((words) => words.includes('our locks are held')), look)
    expect(isConnectionFailure(failure)).toBe(true)
    let isAnswered = false
    Promise.all([database.query(count), reads.query('select 1')]).then(
      () => (isAnswered = true),
      (error: unknown) => (failure = error),
    )
    failure = null
    await turnUntil(clock, () => isAnswered || failure !== null, look)
    expect(failure).toBeNull()
    // Those that are ended leave in their own time.
    while ((await backendsOf({ database, reads, ...rest })).some((pid) => before.includes(pid)));
    expect(ends).toEqual([])
    expect(said.filter((words) => words.includes('Another'))).toEqual([])
  },
)

test('a server that starts during the cut says so once, waits, and serves when it is over', async () => {
  proxy.fallSilent()
  let started: OpenedDatabase | null = null
  void open().then((database) => {
    started = database
  })
  const isOver = () => started !== null
  await turnUntil(clock, () => clock.monotonicMs() > 20_000, look)
  expect([isOver(), said.length]).toEqual([false, 1])
  expect(said[0]).toStartWith('the database in DATABASE_URL does not answer; waiting for it for up to 2 minutes')
  proxy.recover()
  await turnUntil(clock, isOver, look)
  expect(said).toHaveLength(1)
})

test('a server that starts during a cut that does not end gives up after two minutes', async () => {
  proxy.fallSilent()
  let failure: unknown = null
  open().catch((error: unknown) => {
    failure = error
  })
  await turnUntil(clock, () => failure !== null, look)
  expect(isConnectionFailure(failure)).toBe(true)
  expect(clock.monotonicMs()).toBeWithin(120_000, 135_000)
})

test('a restart ends what the process before it left behind the cut, and waits for nobody', async () => {
  const first = await open(new TurnedClock())
  await first.database.query('select 1')
  const slot = await openSession(url(), new TurnedClock(), { kind: 'slot', token: first.token })
  const left = await backendsOf(first)
  expect(left.length).toBeGreaterThanOrEqual(3)
  proxy.forget()
  // As after kill -9: no process has its id.
  const file = join(dataDir, 'process.json')
  const { pid } = Bun.spawnSync(['true'])
  await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), pid }))
  let second: OpenedDatabase | null = null
  void open().then((database) => {
    second = database
  })
  await turnUntil(clock, () => second !== null, look)
  while ((await backendsOf(first)).length > 0);
  expect(said).toEqual([])
  await slot.close()
})

test('a start beside a server that was stopped, and is not dead, ends none of its connections', async () => {
  const first = await open(new TurnedClock())
  const left = await backendsOf(first)
  let words = ''
  open().catch((error: Error) => {
    words = error.message
  })
  await turnUntil(clock, () => words !== '', look)
  expect(words).toContain('its connection to the database has been silent')
  expect(await backendsOf(first)).toEqual(expect.arrayContaining(left))
})

const ONE = 'select 1 as one'

/** Opens the pool for passwords, with both of its connections. */
async function openWarm(address: DatabaseAddress) {
  const pool = await openPgPool(address, () => {})
  const clients = await Promise.all([pool.connect(), pool.connect()])
  for (const client of clients) await client.query(ONE)
  return { pool, clients }
}

test('the pool for passwords gives up a connection with the first statement that gets no answer', async () => {
  const { pool, clients } = await openWarm(toAddress(url()))
  proxy.forget()
  // It gets the first connection that somebody gives back, and must not get a silent one.
  const waiting = pool.query(ONE)
  const impatient = { text: ONE, query_timeout: 100 }
  for (const client of clients) {
    await expect(client.query(impatient)).rejects.toThrow('Query read timeout')
    // Without a word of the failure, as the package for passwords does.
    client.release()
  }
  expect((await waiting).rows).toEqual([{ one: 1 }])
  expect((await pool.query(ONE)).rows).toEqual([{ one: 1 }])
  await pool.end()
})

test('the pool for passwords gives up a connection also where the failure is told to a callback', async () => {
  const { pool, clients } = await openWarm(toAddress(url()))
  proxy.forget()
  for (const client of clients) {
    const told = Promise.withResolvers<Error>()
    const impatient = { text: ONE, query_timeout: 100 }
    client.query(impatient, (error: Error) => told.resolve(error))
    expect((await told.promise).message).toBe('Query read timeout')
    client.release()
  }
  expect((await pool.query(ONE)).rows).toEqual([{ one: 1 }])
  await pool.end()
})

test('the pool for passwords drops its connections when another host comes into use, also those that are in use', async () => {
  const callbacks = new Set<() => void>()
  let used = url()
  const { pool, clients } = await openWarm({
    get url() {
      return used
    },
    choose: async () => {},
    onMoved(callback) {
      callbacks.add(callback)
      return () => callbacks.delete(callback)
    },
  })
  const [inUse, idle] = clients
  idle.release()
  const underWay = inUse.query('select pg_sleep(60)').catch((error: Error) => error.message)
  proxy.fallSilent()
  used = fresh.url
  for (const callback of [...callbacks]) callback()
  expect(await underWay).toStartWith('Connection terminated')
  inUse.release()
  expect((await pool.query(ONE)).rows).toEqual([{ one: 1 }])
  await pool.end()
  while (callbacks.size > 0) await fresh.database.query('select 1')
})
