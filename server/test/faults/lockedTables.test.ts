/** Tables that somebody else has locked (E14): a read is answered after 5 s, and is served again once they are free. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { toAddress } from '../../src/infra/postgres/address.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { SERVER_CONNECTIONS } from '../../src/infra/postgres/open.ts'
import { openReads } from '../../src/infra/postgres/reads.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { type AskedGateway, openAskedGateway, type Question } from '../acceptance/ask.ts'
import { chat, film, SETTINGS } from '../acceptance/catalog.ts'
import type { Answer } from '../acceptance/description.ts'
import { expectRefusal } from '../acceptance/refusals.ts'
import type { TestKey } from '../customer.ts'
import { TEST_XPUB } from '../deposits/depositHouse.ts'
import { LongClock } from '../longClock.ts'
import { openTransaction } from '../openTransaction.ts'
import { until } from '../until.ts'

/** No node answers; a deposit is read all the same. */
const DEPOSITS = `
deposits:
  xpub: ${TEST_XPUB}
  chains:
    polygon: { rpc_urls: ['http://127.0.0.1:1'] }
`
const clock = new LongClock(Date.UTC(2031, 4, 4, 12))
let gateway: AskedGateway
/** As large as a server's: what waits in the background for a locked table must not take all of it. */
let pool: Database
/** A session of an operator. */
let other: Database
/** Looks on, whatever others wait for. */
let watcher: Database
let customer: TestKey
let videoId: string
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: `${SETTINGS.replace('open_requests_per_key: 2', '')}${DEPOSITS}`,
    clock,
    dressDatabase(_direct, url) {
      pool = openClient(url, { maxConnections: SERVER_CONNECTIONS, clock })
      return pool
    },
    openReads: (url) => openReads(toAddress(url), clock),
  })
  const session = (applicationName: string) =>
    openClient(gateway.databaseUrl, { maxConnections: 1, clock: systemClock, applicationName })
  other = session('operator')
  watcher = session('watcher')
  customer = await gateway.customer({ admin: true })
  expect((await gateway.ask({ path: '/chat/completions', key: customer, body: chat() })).status).toBe(200)
})
afterAll(async () => {
  await other.close()
  await watcher.close()
  await gateway.close()
  await pool.close()
})

/** Locks tables until the transaction is committed. */
const lock = (tables: string) =>
  openTransaction(other, (tx) => tx.query(`lock table ${tables} in access exclusive mode`))

/** Names each read that waits for a lock. */
async function waitingReads(): Promise<readonly string[]> {
  const rows = await watcher.query<{ name: string }>(
    `select format('%s since %s', pid, query_start) as name from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock' and application_name = 'tollgate reads'`,
  )
  return rows.map(({ name }) => name)
}

/** Returns what a question is answered with 5 s after its read began to wait for a lock, and not a millisecond before. */
async function afterFiveSeconds(question: Question): Promise<Answer> {
  let answer: Answer | null = null
  // Reads of the gateway's own may wait too.
  const before = new Set(await waitingReads())
  const asking = gateway.ask({ key: customer, ...question }).then((given) => {
    answer = given
  })
  await until(async () => (await waitingReads()).some((name) => !before.has(name)) || answer !== null)
  clock.turn(5 * SECOND_MS - 1)
  await gateway.database.query('select 1')
  expect(answer).toBeNull()
  clock.turn(1)
  await asking
  if (answer === null) throw new Error(`${question.path} has no answer`)
  return answer
}

// Before there is a video: at its end its events are written, and its account stays locked until they are.
test('reads that wait for one table take no connection from reads of other customers, nor from calls', async () => {
  const locking = await lock('webhook_endpoints')
  let isAnswered = false
  try {
    const ask = () => gateway.ask({ path: '/webhook-endpoints', key: customer })
    const hanging = Array.from({ length: 20 }, ask)
    void Promise.race(hanging).then(() => {
      isAnswered = true
    })
    // The others of them wait for their organization's turn.
    await until(async () => (await waitingReads()).length === 2)
    const neighbour = await gateway.customer()
    for (let read = 0; read < 3; read += 1) {
      expect((await gateway.ask({ path: '/billing/balance', key: neighbour })).status).toBe(200)
    }
    expect((await waitingReads()).length).toBe(2)
    expect((await gateway.ask({ path: '/chat/completions', key: customer, body: chat() })).status).toBe(200)
    const keyed = { 'Idempotency-Key': crypto.randomUUID() }
    expect((await gateway.ask({ path: '/chat/completions', key: customer, body: chat(), headers: keyed })).status).toBe(
      200,
    )
    expect(isAnswered).toBe(false)
    clock.turn(1.5 * SECOND_MS)
    // They do not begin to wait for the table when the first two give up.
    for (const { status } of await Promise.all(hanging.slice(2))) expect(status).toBe(503)
    expect((await waitingReads()).length).toBe(2)
    clock.turn(3.5 * SECOND_MS)
    for (const { status } of await Promise.all(hanging)) expect(status).toBe(503)
  } finally {
    await locking.commit()
  }
})

const read = (tables: string, envelope: 'A' | 'B', path: string | (() => string), headers = {}) => ({
  tables,
  envelope,
  path,
  headers,
})

describe('once there is a video', () => {
  beforeAll(async () => {
    const made = await gateway.ask({ path: '/videos', key: customer, body: film() })
    videoId = (made.json as { id: string }).id
  })

  test.each([
    read('accounts', 'A', '/billing/balance'),
    read('accounts', 'A', '/billing/spending-limit'),
    read('accounts', 'A', '/manage/v1/limits'),
    read('usage_hours', 'A', '/usage'),
    read('usage_hours', 'A', '/manage/v1/usage'),
    read('charges', 'A', '/manage/v1/statements/2031-05'),
    read('subscriptions', 'A', '/billing/subscription'),
    read('charges', 'A', '/manage/v1/charges'),
    read('ledger_entries', 'A', '/manage/v1/ledger'),
    read('videos', 'B', '/videos'),
    read('videos', 'B', () => `/videos/${videoId}`),
    read('videos', 'B', () => `/videos/${videoId}/content`),
    read('webhook_endpoints', 'A', '/webhook-endpoints'),
    read('webhook_deliveries', 'A', '/manage/v1/deliveries'),
    read('webhook_events', 'A', '/manage/v1/events', { 'Last-Event-ID': crypto.randomUUID() }),
    read('deposits', 'A', '/billing/deposits'),
    read('deposits', 'A', `/billing/deposits/${crypto.randomUUID()}`),
  ])('GET $path while $tables is locked is 503 after 5 s, and is answered once it is free', async (row) => {
    const path = typeof row.path === 'string' ? row.path : row.path()
    const locking = await lock(row.tables)
    try {
      const answer = await afterFiveSeconds({ path, headers: row.headers })
      const code = row.envelope === 'A' ? 'internal_error' : 'upstream_unavailable'
      expectRefusal(answer, row.envelope, { status: 503, code, retryAfter: 1 })
    } finally {
      await locking.commit()
    }
    expect((await gateway.ask({ path, key: customer, headers: row.headers })).status).toBeLessThan(500)
  })

  test('preflight while accounts are locked says after 5 s that it can not tell, and tells once they are free', async () => {
    const path = '/inference/preflight?model=svc/demo'
    const locking = await lock('accounts')
    try {
      const { json, status } = await afterFiveSeconds({ path })
      expect(status).toBe(200)
      expect(json).toMatchObject({ verdict: 'ok', reason: 'preflight_unavailable' })
    } finally {
      await locking.commit()
    }
    expect((await gateway.ask({ path, key: customer })).json).not.toMatchObject({ reason: 'preflight_unavailable' })
  })
})
