/** The limits on sends that customers ask for: every process counts the same, and what is kept of them is bounded. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { systemRandom } from '../../infra/random.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { holdEndpoint } from '../endpoints/store.ts'
import { noteEvent } from '../publish.ts'
import { redeliver } from './redeliver.ts'
import { sendTest } from './sendTest.ts'

let house: WebhookHouse
let organizationId: string
let endpointId: string
beforeAll(async () => {
  house = await openWebhookHouse()
})
beforeEach(async () => {
  organizationId = await house.organization()
  endpointId = (await house.endpoint(organizationId, 'http://127.0.0.1:1/')).id
})
afterAll(() => house.close())

interface Asking {
  readonly testsPerMinute?: number
  readonly pendingMost?: number
  readonly unpaid?: Refusal | null
}

function dependenciesOf({ testsPerMinute = 3, pendingMost = 10_000, unpaid = null }: Asking) {
  const { database, clock } = house
  const limits = { testsPerMinute, pendingMost }
  return {
    database,
    clock,
    random: systemRandom(),
    holdEndpoint,
    noteEvent,
    limits,
    refuseUnfunded: async () => unpaid,
  }
}

/** `sent`, or the code of the refusal with its seconds to wait. */
async function askForTest(asking: Asking = {}, endpoint = endpointId): Promise<string> {
  const asked = { organizationId, endpointId: endpoint, type: undefined }
  const sent = await sendTest(dependenciesOf(asking), asked, async () => [])
  return sent.ok ? 'sent' : `${sent.refusal.code} ${sent.refusal.retryAfterSeconds ?? ''}`.trim()
}

async function askAgain(id: string, asking: Asking = {}): Promise<string> {
  const sent = await redeliver(dependenciesOf(asking), organizationId, id, async () => [])
  return sent.ok ? sent.value.state : sent.refusal.code
}

test('any minute has as many tests and redeliveries as the setting says, and no more', async () => {
  const [delivery] = await house.deliveries(await house.publish(organizationId))
  expect(await askForTest()).toBe('sent')
  await house.clock.turn(20 * SECOND_MS)
  expect(await askAgain(delivery?.id ?? '')).toBe('pending')
  expect(await askForTest()).toBe('sent')
  expect(await askForTest()).toBe('rate_limited 40')
  expect(await askAgain(delivery?.id ?? '')).toBe('rate_limited')
  await house.clock.turn(40 * SECOND_MS - 1)
  expect(await askForTest()).toBe('rate_limited 1')
  await house.clock.turn(1)
  expect(await askForTest()).toBe('sent')
  expect(await askForTest()).toBe('rate_limited 20')
  // A lowered setting holds for those that were sent before.
  await house.clock.turn(20 * SECOND_MS)
  expect(await askForTest({ testsPerMinute: 1 })).toBe('rate_limited 40')
})

test('of many at once as many are sent as may be', async () => {
  const asked = await Promise.all(Array.from({ length: 9 }, () => askForTest()))
  expect(asked.filter((each) => each === 'sent')).toHaveLength(3)
})

test('refusals come in order: the endpoint, the limits, and then that nobody pays', async () => {
  const unpaid = refusal('insufficient_balance', 'Add credit.')
  expect(await askForTest({ unpaid }, crypto.randomUUID())).toBe('not_found')
  expect(await askForTest({ unpaid })).toBe('insufficient_balance')
  // A refused test does not count.
  for (let time = 0; time < 3; time += 1) expect(await askForTest()).toBe('sent')
  expect(await askForTest({ unpaid })).toBe('rate_limited 60')
  await house.clock.turn(MINUTE_MS)
  await house.publish(organizationId)
  expect(await askForTest({ unpaid, pendingMost: 1 })).toBe('rate_limited 30')
  const rows = await house.database.query('select 1 from webhook_deliveries where organization_id = $1::uuid', [
    organizationId,
  ])
  // The three tests, and the event.
  expect(rows).toHaveLength(4)
})

test('a refused test or redelivery locks and writes nothing, so that none waits for another', async () => {
  const [delivery] = await house.deliveries(await house.publish(organizationId))
  expect(await askForTest({ testsPerMinute: 1 })).toBe('sent')
  await house.database.transaction(async (tx) => {
    // A request that locks or writes one of these waits for this transaction, which waits for the request.
    for (const table of ['webhook_sends', 'webhook_endpoints', 'webhook_deliveries']) {
      await tx.query(`select 1 from ${table} where organization_id = $1::uuid for update`, [organizationId])
    }
    expect(await askForTest({ testsPerMinute: 1 })).toBe('rate_limited 60')
    expect(await askAgain(delivery?.id ?? '', { testsPerMinute: 1 })).toBe('rate_limited')
    const unpaid = refusal('insufficient_balance', 'Add credit.')
    expect(await askForTest({ unpaid })).toBe('insufficient_balance')
    expect(await askAgain(delivery?.id ?? '', { unpaid })).toBe('insufficient_balance')
  })
})

test('a delivery that was never tried is tried once there is room, and its reason is gone', async () => {
  const [first] = await house.deliveries(await house.publish(organizationId, 'video.completed', 1))
  const [excess] = await house.deliveries(await house.publish(organizationId, 'video.completed', 1))
  expect(excess).toMatchObject({ state: 'dead', dueInMs: null, attempts: 0 })
  const reason = async () => {
    const rows = await house.database.query('select reason from webhook_deliveries where id = $1::uuid', [
      excess?.id ?? '',
    ])
    return rows[0]
  }
  expect(await reason()).toEqual({ reason: 'too_many_pending' })
  expect(await askAgain(excess?.id ?? '', { pendingMost: 1 })).toBe('rate_limited')
  // One that is pending already adds none.
  expect(await askAgain(first?.id ?? '', { pendingMost: 1 })).toBe('pending')
  expect(await askAgain(excess?.id ?? '', { pendingMost: 2 })).toBe('pending')
  expect(await reason()).toEqual({ reason: null })
})

test('of two endpoints the places that are left are given to as many', async () => {
  await house.endpoint(organizationId, 'http://127.0.0.1:2/')
  await house.publish(organizationId, 'video.completed', 3)
  const second = await house.deliveries(await house.publish(organizationId, 'video.completed', 3))
  expect(second.map(({ state }) => state).toSorted()).toEqual(['dead', 'pending'])
})

test('an organization keeps its last 1,000 tests, with their events and attempts', async () => {
  await house.database.query(
    `with events as (
       insert into webhook_events (id, organization_id, type, body, created_at, written_by)
       select gen_random_uuid(), $1::uuid, 'video.completed', '{}', $3::timestamptz - n * interval '1 second', '1'
       from generate_series(1, 1030) n returning id, created_at
     ), sent as (
       insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
         is_new, is_test, created_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, id, 'dead', 1, 0, false, true, created_at from events returning id
     )
     insert into webhook_attempts (delivery_id, number, started_at, latency_ms, status)
     select id, 1, $3::timestamptz, 1, 500 from sent`,
    [organizationId, endpointId, new Date(house.clock.now()).toISOString()],
  )
  const other = await house.publish(organizationId)
  const counts = async () => {
    const [row] = await house.database.query<Record<string, bigint>>(
      `select (select count(*) from webhook_deliveries where organization_id = $1::uuid and is_test) as tests,
         (select count(*) from webhook_events where organization_id = $1::uuid) as events,
         (select count(*) from webhook_attempts a join webhook_deliveries d on d.id = delivery_id
           where organization_id = $1::uuid) as attempts`,
      [organizationId],
    )
    return Object.values(row ?? {}).map(Number)
  }
  expect(await counts()).toEqual([1_030, 1_031, 1_030])
  for (let time = 0; time < 2; time += 1) expect(await askForTest()).toBe('sent')
  expect(await counts()).toEqual([1_000, 1_001, 998])
  expect(await house.deliveries(other)).toHaveLength(1)
})

test('a redelivery drops the attempts that are shown no more', async () => {
  const [delivery] = await house.deliveries(await house.publish(organizationId))
  const id = delivery?.id ?? ''
  await house.database.query(
    `insert into webhook_attempts (delivery_id, number, started_at, latency_ms, status)
     select $1::uuid, number, now(), 1, 500 from generate_series(1, 25) number`,
    [id],
  )
  await house.database.query(
    "update webhook_deliveries set state = 'dead', attempts = 25, due_at = null, is_new = false where id = $1::uuid",
    [id],
  )
  expect(await askAgain(id)).toBe('pending')
  const rows = await house.database.query<{ number: number }>(
    'select number from webhook_attempts where delivery_id = $1::uuid order by number',
    [id],
  )
  expect(rows.map(({ number }) => number)).toEqual([16, 17, 18, 19, 20, 21, 22, 23, 24, 25])
})
