/** Two databases stand for two hosts. One that takes no writes is as a standby is. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { until } from '../../../test/until.ts'
import { systemClock } from '../clock.ts'
import { openClient } from './client.ts'
import { openSession } from './session.ts'
import { NoHostTakesWrites, severalHosts } from './severalHosts.ts'

let one: FreshDatabase
let other: FreshDatabase
beforeEach(async () => {
  one = await freshDatabase()
  other = await freshDatabase()
  await writable(other, false)
})
afterEach(async () => {
  for (const each of [one, other]) await each.drop()
})

const nameOf = ({ url }: { readonly url: string }) => new URL(url).pathname.slice(1)

/** New connections of a database take writes or do not; those that are open end, as a server's that is promoted or demoted. */
async function writable(fresh: FreshDatabase, isSo: boolean): Promise<void> {
  const admin = openClient(fresh.url, { maxConnections: 1, clock: systemClock, applicationName: 'operator' })
  await admin.query('set default_transaction_read_only = off')
  await admin.query(`alter database ${nameOf(fresh)} set default_transaction_read_only = ${isSo ? 'off' : 'on'}`)
  await admin.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )
  await admin.close()
}

type Told = (readonly string[])[]
const address = (told: Told = []) => severalHosts([one.url, other.url], systemClock, (hosts) => void told.push(hosts))

test('the host that takes writes is used, and stays in use while it takes them', async () => {
  const hosts = address()
  await hosts.choose()
  expect(hosts.url).toBe(one.url)
  await writable(one, false)
  await writable(other, true)
  await hosts.choose()
  expect(hosts.url).toBe(other.url)
  await writable(one, true)
  await hosts.choose()
  expect(hosts.url).toBe(other.url)
})

test('two hosts that take writes at the same time are told of, without their passwords; one is not', async () => {
  const early: Told = []
  await address(early).choose()
  expect(early).toEqual([])
  await writable(other, true)
  // The first one's question to the other host may be answered only now.
  const told: Told = []
  const hosts = address(told)
  await hosts.choose()
  await until(async () => told.length > 0)
  expect([hosts.url, told]).toEqual([one.url, [[new URL(one.url).host, new URL(other.url).host]]])
})

test('where none takes writes the host in use stays, and whoever asks is told', async () => {
  const hosts = address()
  await writable(one, false)
  await expect(hosts.choose()).rejects.toThrow(NoHostTakesWrites)
  expect(hosts.url).toBe(one.url)
  const gone = severalHosts(['postgres://u:p@127.0.0.1:1/d', other.url], systemClock, () => {})
  await expect(gone.choose()).rejects.toMatchObject({ code: expect.stringContaining('ERR_POSTGRES_CONNECTION') })
})

test('when another host comes into use, sessions are lost and pools lead to it', async () => {
  const hosts = address()
  const session = await openSession(hosts, systemClock)
  const pool = openClient(hosts, { maxConnections: 2, clock: systemClock })
  const database = async () => (await pool.query<{ name: string }>('select current_database() as name'))[0]?.name
  expect(await database()).toBe(nameOf(one))
  let isLost = false
  session.onLost(() => {
    isLost = true
  })
  await writable(other, true)
  await one.database.query(`alter database ${nameOf(one)} set default_transaction_read_only = on`)
  // The former host goes on: its connections are given up all the same.
  expect(isLost).toBe(false)
  await hosts.choose()
  expect([isLost, session.lost]).toEqual([true, true])
  expect(await database()).toBe(nameOf(other))
  await pool.close()
})

test('a pool that meets a host which takes no writes any more looks for the other', async () => {
  const hosts = address()
  await hosts.choose()
  const pool = openClient(hosts, { maxConnections: 1, clock: systemClock })
  await writable(other, true)
  await writable(one, false)
  let isWritten = false
  await until(async () => {
    await pool.query('create table written ()').then(
      () => {
        isWritten = true
      },
      () => {},
    )
    return isWritten
  })
  expect(hosts.url).toBe(other.url)
  await pool.close()
})
