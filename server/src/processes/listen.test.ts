import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import type { FreshDatabase } from '../../test/postgres.ts'
import { freshDatabase } from '../../test/postgres.ts'
import { startSilentProxy, throughProxy } from '../../test/silentProxy.ts'
import { systemClock } from '../infra/clock.ts'
import { toAddress } from '../infra/postgres/address.ts'
import { openListener } from './listen.ts'

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/** Collects what happens and lets a test wait for the next thing. */
function mailbox() {
  const arrived: string[] = []
  let wake = () => {}
  return {
    put(text: string) {
      arrived.push(text)
      wake()
    },
    async take(): Promise<string> {
      while (arrived.length === 0) await new Promise<void>((resolve) => (wake = resolve))
      return arrived.shift() ?? ''
    },
  }
}

test('a listener is confirmed, hears its channels, and says when a cut may have cost it something', async () => {
  const box = mailbox()
  const listener = openListener(toAddress(fresh.url), {
    clock: systemClock,
    channels: { first: (payload) => box.put(`first ${payload}`), second: (payload) => box.put(`second ${payload}`) },
    onConfirmed: (confirmed) => box.put(String(confirmed)),
  })
  expect(listener.confirmed).toBe(false)
  expect(await box.take()).toBe('true')
  expect(listener.confirmed).toBe(true)
  await fresh.database.query('select pg_notify($1, $2)', ['first', 'one'])
  expect(await box.take()).toBe('first one')

  await fresh.database.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'listen%'",
  )
  expect(await box.take()).toBe('false')
  expect(await box.take()).toBe('true')
  await fresh.database.query('select pg_notify($1, $2)', ['second', 'two'])
  expect(await box.take()).toBe('second two')
  await listener.close()
})

test('a listener that finds no server is not confirmed, and can be closed', async () => {
  const told: boolean[] = []
  const listener = openListener(toAddress('postgres://a:b@127.0.0.1:1/c'), {
    clock: systemClock,
    channels: {},
    onConfirmed: (confirmed) => told.push(confirmed),
  })
  await listener.close()
  expect(listener.confirmed).toBe(false)
  expect(told).toEqual([])
})

test('a listener whose connection falls silent stops being confirmed within 2.5 s, and finds another', async () => {
  const proxy = await startSilentProxy(fresh.url)
  const clock = new TurnedClock()
  const box = mailbox()
  const listener = openListener(toAddress(throughProxy(fresh.url, proxy)), {
    clock,
    channels: { first: (payload) => box.put(payload) },
    onConfirmed: (confirmed) => box.put(String(confirmed)),
  })
  expect(await box.take()).toBe('true')
  proxy.fallSilent()
  await clock.turn(2_499)
  expect(listener.confirmed).toBe(true)
  await clock.turn(1)
  expect(listener.confirmed).toBe(false)
  expect(await box.take()).toBe('false')
  proxy.recover()
  await clock.turn(10_000)
  expect(await box.take()).toBe('true')
  await fresh.database.query('select pg_notify($1, $2)', ['first', 'heard'])
  expect(await box.take()).toBe('heard')
  await listener.close()
  expect(clock.pending).toBe(0)
  proxy.stop()
})
