/**
 * Changes of an organization take its turns at the database, so that they leave connections to everybody else. A change whose commit
 * fails frees its Idempotency-Key.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { TestKey } from '../customer.ts'
import { until } from '../until.ts'
import { openAskedGateway, type Question } from './ask.ts'
import type { Answer } from './description.ts'
import { openRental, operationOf, RENTED, type Rental } from './rental.ts'

const UUID = '01900000-0000-7000-8000-000000000001'
const MANAGE = '/manage/v1'
const MORE = `public_url: https://tollgate.test
accounts: {}
payments: { provider: local }
webhooks: { allow: [127.0.0.0/8] }
`

/** The owners of all transactions so far; null: one has none. */
const owners: (string | null)[] = []

let rental: Rental
let key: TestKey
beforeAll(async () => {
  rental = await openRental({
    instances: ['host: apps.localhost', 'port: 0'],
    more: MORE,
    open: ({ settings }) =>
      openAskedGateway({
        settings: settings.replace('weekly_tokens: 150 }', 'weekly_tokens: 150, payment_price: local_2000_month }'),
        dressDatabase: (database) => ({
          ...database,
          transaction: (work, owner) => {
            owners.push(owner ?? null)
            return database.transaction(work, owner)
          },
        }),
      }),
  })
  key = await rental.gateway.customer({ admin: true })
  // The commit of a change that keeps its answer fails for the keys of this table.
  await rental.gateway.database.query(`
    create table failing (key_id uuid);
    create function fail() returns trigger language plpgsql as $$ begin
      if new.status is not null and new.key_id in (select key_id from failing) then raise 'this commit fails'; end if;
      return null;
    end $$;
    create constraint trigger fail after update on idempotent_attempts deferrable initially deferred
      for each row execute function fail();`)
})
afterAll(() => rental.close())

const ask = (question: Question): Promise<Answer> => rental.gateway.ask({ key, ...question })
const HOOK = { path: '/webhook-endpoints', body: { url: 'http://127.0.0.1:9/hook', event_types: ['video.completed'] } }

function idOf({ json }: Answer): string {
  return (json as { readonly id: string }).id
}

/** Changes of everything that an organization has, each with the status of its answer. */
async function changes(): Promise<[Question, number][]> {
  const once = { 'Idempotency-Key': crypto.randomUUID() }
  const hook = idOf(await ask({ ...HOOK, headers: once }))
  const testing = { method: 'POST', path: `${MANAGE}/webhook-endpoints/${hook}/test` }
  const delivery = idOf(await ask(testing))
  const other = idOf(await ask({ path: `${MANAGE}/keys`, body: { name: 'other', scope: 'full_access' } }))
  const { resource_id: instance } = operationOf(await rental.create(key))
  return [
    [HOOK, 201],
    [testing, 202],
    [{ method: 'POST', path: `${MANAGE}/deliveries/${delivery}/redeliver` }, 202],
    [{ method: 'DELETE', path: `/webhook-endpoints/${hook}` }, 204],
    [{ path: '/instances', body: RENTED }, 202],
    [{ method: 'POST', path: `/instances/${instance}/app-password` }, 201],
    [{ method: 'DELETE', path: `/instances/${instance}` }, 202],
    [{ path: `${MANAGE}/keys`, body: { name: 'robot', scope: 'read_only' } }, 201],
    [{ method: 'PATCH', path: `${MANAGE}/keys/${other}`, body: { name: 'renamed' } }, 200],
    [{ path: `${MANAGE}/keys/${other}/rotate`, body: {} }, 201],
    [{ method: 'DELETE', path: `${MANAGE}/keys/${other}` }, 204],
    [{ method: 'PATCH', path: `${MANAGE}/organization`, body: { notify_addresses: ['a@example.com'] } }, 200],
    [{ path: `${MANAGE}/top-ups`, body: { amount_cents: 1_500 } }, 201],
    [{ path: '/billing/subscription/checkout', body: {} }, 200],
  ]
}

/** The same of changes that keep no answer of their own, or that find nothing to change. */
const OTHERS: [Question, number][] = [
  [{ path: `${MANAGE}/top-ups`, body: { amount_cents: 1_600 } }, 201],
  [{ path: '/billing/subscription/portal', body: {} }, 200],
  [{ method: 'PUT', path: '/billing/spending-limit', body: { monthly_limit_dollars: 77 } }, 200],
  [
    { method: 'PUT', path: `${MANAGE}/auto-pay`, body: { enabled: false, threshold_cents: 700, amount_cents: 900 } },
    200,
  ],
  [{ method: 'PATCH', path: `${MANAGE}/members/${UUID}`, body: { role: 'member' } }, 404],
  [{ method: 'DELETE', path: `${MANAGE}/members/${UUID}` }, 404],
  [{ method: 'DELETE', path: `${MANAGE}/invitations/${UUID}` }, 404],
]

test('the transaction of each change names the organization as its owner, and a failed commit frees the key', async () => {
  const { database } = rental.gateway
  for (const [question, expected] of await changes()) {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    await database.query('insert into failing values ($1::uuid)', [key.id])
    const failed = await ask({ ...question, headers })
    await database.query('delete from failing')
    expect([question, failed.status]).toEqual([question, 500])
    const open = 'select 1 from idempotent_attempts where key_id = $1::uuid and status is null'
    expect([question, await database.query(open, [key.id])]).toEqual([question, []])
    owners.length = 0
    expect([question, (await ask({ ...question, headers })).status]).toEqual([question, expected])
    expect([question, owners]).toEqual([question, expect.arrayContaining([key.organizationId])])
  }
}, 60_000)

test('so does that of a change that keeps no answer, and of one that finds nothing', async () => {
  for (const [question, expected] of OTHERS) {
    owners.length = 0
    expect([question, (await ask(question)).status]).toEqual([question, expected])
    expect([question, owners]).toEqual([question, expect.arrayContaining([key.organizationId])])
  }
})

test('twenty changes that wait for a row of their organization leave connections to others', async () => {
  // Of a pool of its own: the gateway's has four connections here.
  const beside = openClient(rental.gateway.databaseUrl, { maxConnections: 2, clock: systemClock })
  const add = (by: TestKey) => ask({ ...HOOK, key: by, headers: { 'Idempotency-Key': crypto.randomUUID() } })
  const [own, other] = [await rental.gateway.customer(), await rental.gateway.customer()]
  const waiting = await beside.transaction(async (tx) => {
    await tx.query('select 1 from organizations where id = $1::uuid for no key update', [own.organizationId])
    const begun = Array.from({ length: 20 }, () => add(own))
    const blocked = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    // Not in the transaction: there a backend that is new would not be seen.
    await until(async () => (await beside.query(blocked)).length >= 3)
    expect((await add(other)).status).toBe(201)
    return begun
  })
  await beside.close()
  const statuses = (await Promise.all(waiting)).map(({ status }) => status)
  expect([statuses.filter((each) => each === 201).length, statuses.filter((each) => each === 422).length]).toEqual([
    2, 18,
  ])
})
