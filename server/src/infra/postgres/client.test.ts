import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { startSilentProxy, throughProxy } from '../../../test/silentProxy.ts'
import { systemClock } from '../clock.ts'
import { toAddress } from './address.ts'
import { openClient } from './client.ts'
import { arrayLiteral, plainArrayLiteral } from './database.ts'
import { faultOf, isConnectionFailure, sqlStateOf } from './faults.ts'
import { openPgPool } from './pgPool.ts'
import { faultOfState } from './sqlStates.ts'

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}

test('values come back as the contract says, and null stays null', async () => {
  const instant = new Date('2026-01-02T03:04:05.678Z')
  const bytes = new Uint8Array([0, 127, 255])
  const [row] = await fresh.database.query<Record<string, unknown>>(
    `select $1::int8 as big, $2::bytea as bytes, $3::timestamptz as instant, $4::text::jsonb as json, $5::text as nothing,
      $6::boolean as flag, $7::numeric as exact, $8::float8 as float, null::bytea as no_bytes, count(*) as counted`,
    [9_007_199_254_740_993n, bytes, instant, '{"a":[1]}', null, false, '0.1', 0.25],
  )
  expect(row).toEqual({
    big: 9_007_199_254_740_993n,
    bytes: Buffer.from(bytes),
    instant,
    json: { a: [1] },
    nothing: null,
    flag: false,
    exact: '0.1',
    float: 0.25,
    no_bytes: null,
    counted: 1n,
  })
  expect(row?.['bytes']).toBeInstanceOf(Uint8Array)
})

test('lists keep quotes, backslashes, braces, commas, empty text and null', async () => {
  const list = ['plain', 'a "quoted" \\ one', '{b,c}', '', 'null', null, 'ü\n']
  const rows = await fresh.database.query<{ item: string | null }>(
    'select item from unnest($1::text::text[]) with ordinality as t (item, n) order by n',
    [arrayLiteral(list)],
  )
  expect(rows.map((row) => row.item)).toEqual(list)
})

test('lists without quotes keep uuids, numbers, instants and words', async () => {
  const lists = {
    uuid: ['01900000-0000-7000-8000-000000000001', '01900000-0000-7000-8000-00000000000a'],
    numeric: ['-1', '0.5', String(2n ** 62n)],
    timestamptz: ['2026-11-29T17:49:37.123Z'],
    boolean: [true, false],
    text: ['completed', 'cut'],
    integer: [],
  }
  for (const [type, list] of Object.entries(lists)) {
    const [row] = await fresh.database.query<{ same: boolean }>(
      `select $1::text::${type}[] = $2::text::${type}[] as same`,
      [plainArrayLiteral(list), arrayLiteral(list)],
    )
    expect(row?.same, type).toBe(true)
  }
})

test('one text is prepared once on a connection, whatever the JavaScript types of its values', async () => {
  const one = openClient(fresh.url, { maxConnections: 1, clock: systemClock })
  try {
    const text = 'select $1::numeric as value'
    for (const value of [1, 1.5, 2n ** 40n, '3', null]) await one.query(text, [value])
    const prepared = await one.query('select 1 from pg_prepared_statements where statement = $1', [text])
    expect(prepared).toHaveLength(1)
  } finally {
    await one.close()
  }
})

test('a transaction that throws leaves nothing, and its error comes through', async () => {
  await fresh.database.query('create table kept (x int)')
  const thrown = new Error('stop')
  const error = await failureOf(
    fresh.database.transaction(async (tx) => {
      await tx.query('insert into kept values ($1)', [1])
      throw thrown
    }),
  )
  expect(error).toBe(thrown)
  const list = await fresh.database.transaction(async (tx) => {
    await tx.query('insert into kept values ($1)', [2])
    return [tx.isTransaction, 'as it is']
  })
  expect(list).toEqual([true, 'as it is'])
  expect(await fresh.database.query<{ x: number }>('select x from kept')).toMatchObject([{ x: 2 }])
})

test('a refused statement has its SQLSTATE and is no connection failure', async () => {
  const error = await failureOf(fresh.database.query('select 1 / $1::int', [0]))
  expect(sqlStateOf(error)).toBe('22012')
  expect(isConnectionFailure(error)).toBe(false)
  expect(sqlStateOf(new Error('other'))).toBeNull()
  expect(isConnectionFailure(new Error('other'))).toBe(false)
})

test('an absent server is a connection failure', async () => {
  const nobody = openClient('postgres://a:b@127.0.0.1:1/c', { maxConnections: 1, clock: systemClock })
  const error = await failureOf(nobody.query('select 1'))
  expect(isConnectionFailure(error)).toBe(true)
  expect(sqlStateOf(error)).toBeNull()
  await nobody.close()
})

test('a transaction whose connection is cut fails as a connection failure, and the pool goes on', async () => {
  const error = await failureOf(
    fresh.database.transaction(async (tx) => {
      await tx.query('insert into kept values ($1)', [3])
      await tx.query('select pg_terminate_backend(pg_backend_pid())')
    }),
  )
  expect(isConnectionFailure(error)).toBe(true)
  expect(await fresh.database.query<{ x: number }>('select x from kept where x = $1', [3])).toHaveLength(0)
})

test('the server ends a statement that runs too long', async () => {
  const hasty = openClient(fresh.url, { maxConnections: 1, clock: systemClock, statementTimeoutMs: 20 })
  const error = await failureOf(hasty.query('select pg_sleep($1)', [60]))
  expect(sqlStateOf(error)).toBe('57014')
  await hasty.close()
})

test('a statement that is never answered fails as a connection failure, and the next one finds a new pool', async () => {
  const proxy = await startSilentProxy(fresh.url)
  const clock = new TurnedClock()
  const database = openClient(throughProxy(fresh.url, proxy), { maxConnections: 2, clock })
  await database.query('select 1')
  proxy.fallSilent()
  const alone = failureOf(database.query('select $1::int', [1]))
  const inTransaction = failureOf(database.transaction((tx) => tx.query('select $1::int', [2])))
  await clock.turn(35_000)
  expect(isConnectionFailure(await alone)).toBe(true)
  expect(isConnectionFailure(await inTransaction)).toBe(true)
  proxy.recover()
  expect(await database.query<{ n: number }>('select $1::int as n', [3])).toEqual([{ n: 3 }])
  await database.close()
  expect(clock.pending).toBe(0)
  proxy.stop()
})

test('transactions of one owner leave connections to others, and all of them are done', async () => {
  const pool = openClient(fresh.url, { maxConnections: 4, clock: systemClock })
  await pool.query('create table owned (id int primary key, n int not null)')
  await pool.query('insert into owned values (1, 0)')
  let release = () => {}
  const isHeld = Promise.withResolvers<void>()
  const holder = fresh.database.transaction(async (tx) => {
    await tx.query('select 1 from owned where id = $1 for update', [1])
    isHeld.resolve()
    await new Promise<void>((resolve) => {
      release = resolve
    })
  })
  await isHeld.promise
  const ended: number[] = []
  const waiting = Array.from({ length: 12 }, (_, index) =>
    pool
      .transaction((tx) => tx.query('update owned set n = n + 1 where id = $1', [1]), 'one')
      .then(() => ended.push(index)),
  )
  const failing = failureOf(pool.transaction(() => Promise.reject(new Error('of its own')), 'one'))
  // All of the pool would wait for the lock now.
  expect(await pool.transaction((tx) => tx.query<{ n: number }>('select n from owned'), 'another')).toEqual([{ n: 0 }])
  expect(await pool.query<{ n: number }>('select n from owned')).toEqual([{ n: 0 }])
  expect(ended).toEqual([])
  release()
  await Promise.all([holder, ...waiting])
  expect(await failing).toMatchObject({ message: 'of its own' })
  expect(ended.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 12 }, (_, index) => index))
  expect(await pool.query<{ n: number }>('select n from owned')).toEqual([{ n: 12 }])
  await pool.close()
})

test('beyond 1,000 that wait, a transaction of an owner is refused and not begun; those without an owner never are', async () => {
  const pool = openClient(fresh.url, { maxConnections: 4, clock: systemClock })
  let release = () => {}
  const isReleased = new Promise<void>((resolve) => {
    release = resolve
  })
  let begun = 0
  const work = async () => {
    begun += 1
    await isReleased
  }
  const accepted = Array.from({ length: 1_003 }, () => pool.transaction(work, 'one'))
  while (begun < 3) await new Promise((resolve) => setImmediate(resolve))
  const refused = await failureOf(pool.transaction(work, 'one'))
  expect(refused).toMatchObject({ refusal: { code: 'rate_limit_exceeded', retryAfterSeconds: 1 } })
  for (const owner of ['another', undefined]) expect(await pool.transaction(async () => 'done', owner)).toBe('done')
  expect(begun).toBe(3)
  release()
  await Promise.all(accepted)
  await pool.transaction(work, 'one')
  expect(begun).toBe(1_004)
  await pool.close()
})

test('when a server takes no writes, the next statements go to new connections', async () => {
  const [{ name } = { name: '' }] = await fresh.database.query<{ name: string }>('select current_database() as name')
  await fresh.database.query('create table written (x int)')
  const clock = new TurnedClock()
  const database = openClient(fresh.url, { maxConnections: 2, clock })
  const write = () => database.query('insert into written values ($1)', [1])
  // As of a primary that has become a standby: its connections stay read-only, and new ones reach its successor.
  await fresh.database.query(`alter database ${name} set default_transaction_read_only = on`)
  // A read-only server is left once a second at most.
  expect(sqlStateOf(await failureOf(write()))).toBe('25006')
  const operator = openClient(fresh.url, { maxConnections: 1, clock })
  await operator.query('set default_transaction_read_only = off')
  await operator.query(`alter database ${name} reset default_transaction_read_only`)
  await clock.turn(1_000)
  expect(sqlStateOf(await failureOf(write()))).toBe('25006')
  await write()
  await operator.close()
  await database.close()
})

test('errors of the package pg are told by the same table', async () => {
  const pg = await openPgPool(toAddress(fresh.url), () => {})
  expect(faultOf(await failureOf(pg.query('select 1 / 0')))).toEqual(faultOfState('22012'))
  expect(faultOf(await failureOf(pg.query('set statement_timeout = 10; select pg_sleep(60)')))).toEqual(
    faultOfState('57014'),
  )
  await pg.end()
})
