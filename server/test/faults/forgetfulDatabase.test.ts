/** A database that was restored, or a standby that was behind when it was promoted: what is lost is seen, said and counted (E21). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { type Gateway, openGateway } from '../gateway.ts'
import { metric } from '../metricsPage.ts'
import { CHAT, SETTINGS } from '../sandboxChat.ts'
import { until } from '../until.ts'

let gateway: Gateway
/** Of the server's first database, which outlives those that are put in each other's place. */
let server: Database
let name: string
let copy: string
beforeAll(async () => {
  gateway = await openGateway({ settings: SETTINGS })
  const url = new URL(gateway.databaseUrl)
  name = url.pathname.slice(1)
  copy = `${name}_copy`
  url.pathname = '/postgres'
  server = openClient(url.toString(), { maxConnections: 1, clock: systemClock })
})
afterAll(async () => {
  await server.query(`drop database if exists ${name}_lost with (force)`)
  await server.close()
  await gateway.close()
})

/** Does something while nobody is connected to the database, and lets them in again. */
async function aside(work: () => Promise<unknown>): Promise<void> {
  await server.query(`alter database ${name} allow_connections false`)
  const end = () =>
    server.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [name])
  await until(async () => (await end()).length === 0)
  await work()
  await server.query(`alter database ${name} allow_connections true`)
}

async function ready() {
  const answer = await gateway.app.handleAdmin(new Request('http://localhost/ready'))
  return (await answer.json()) as { ready: boolean; warnings: string[] }
}

const lostCharges = () => metric(gateway.app, 'lost_charges_total')

test('charges that the database forgot are counted and said; accounts are as it has them now, and prices are stored again', async () => {
  const customer = await gateway.customer({ cents: 1_000 })
  const call = async () => (await gateway.post(customer, '/chat/completions', CHAT)).status
  const served = async (calls: number) => {
    for (let left = calls; left > 0; left -= 1) await until(async () => (await call()) === 200)
  }
  await served(2)
  await gateway.database.query('delete from price_versions')
  await aside(() => server.query(`create database ${copy} template ${name} strategy file_copy`))
  // A cut alone loses nothing.
  await served(3)
  expect([await lostCharges(), (await ready()).warnings]).toEqual([0, []])

  await aside(async () => {
    await server.query(`alter database ${name} rename to ${name}_lost`)
    await server.query(`alter database ${copy} rename to ${name}`)
  })
  // Nobody calls meanwhile: it is seen as soon as the database is reached again.
  await until(async () => (await lostCharges()) === 3)
  await until(async () => (await ready()).ready)
  expect((await ready()).warnings).toEqual([expect.stringContaining('has lost 3 charges')])
  expect(gateway.logs.filter((line) => line.includes('the database has lost charges'))).toHaveLength(1)

  await served(1)
  const [books] = await gateway.database.query<{ charges: bigint; balance: bigint; unpriced: bigint }>(
    `select (select count(*) from charges) as charges,
       (select count(*) from named_charges c where not exists (select 1 from price_versions p where p.hash = c.price_hash)) as unpriced,
       (select balance_microcents from accounts where organization_id = $1::uuid)
         - (select coalesce(sum(spent_microcents), 0)::bigint from unfolded_spend where organization_id = $1::uuid) as balance`,
    [customer.organizationId],
  )
  const [cost] = await gateway.database.query<{ cost: bigint }>('select max(cost_microcents) as cost from charges')
  expect(books).toEqual({ charges: 3n, unpriced: 0n, balance: 1_000_000_000n - 3n * (cost?.cost ?? 0n) })
  expect(await lostCharges()).toBe(3)
}, 60_000)
