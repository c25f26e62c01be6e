import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { startReceiver } from '../../../test/webhookReceiver.ts'
import { MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { countSlowEndpoints, readWaiting } from './store.ts'

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

/** By lane: how many wait, and for how many seconds the first of them. */
async function waiting() {
  const nowMs = house.clock.now()
  const lanes = await readWaiting(house.database, nowMs)
  return Object.fromEntries(
    lanes.map(({ lane, waiting: count, oldestAtMs }) => [
      lane,
      [count, oldestAtMs === null ? null : (nowMs - oldestAtMs) / SECOND_MS],
    ]),
  )
}

const NONE = [0, null]

test('waiting deliveries are told by lane, and since when', async () => {
  const receiver = await startReceiver((response) => response.writeHead(500).end())
  const organizationId = await house.organization()
  const { id } = await house.endpoint(organizationId, receiver.url)
  await house.endpoint(organizationId, `${receiver.url}/other`)
  expect(await waiting()).toEqual({ new: NONE, fast: NONE, slow: NONE })
  await house.publish(organizationId)
  await house.clock.turn(5 * SECOND_MS)
  expect(await waiting()).toEqual({ new: [2, 5], fast: NONE, slow: NONE })
  await house.deliverer().run()
  // Tried again in half a minute and a little.
  expect(await waiting()).toEqual({ new: NONE, fast: NONE, slow: NONE })
  await house.clock.turn(MINUTE_MS)
  const { fast } = await waiting()
  expect(fast?.[0]).toBe(2)
  expect(fast?.[1]).toBeGreaterThan(20)
  await house.database.query('update webhook_turns set is_slow = true where endpoint_id = $1::uuid', [id])
  expect(await countSlowEndpoints(house.database)).toBe(1)
  expect(await waiting()).toMatchObject({ fast: [1, expect.any(Number)], slow: [1, expect.any(Number)] })
  receiver.stop()
})

test('deliveries that a runner has in hand wait too, and a long queue is counted up to a bound', async () => {
  const organizationId = await house.organization()
  const { id } = await house.endpoint(organizationId, 'http://127.0.0.1:1')
  await house.database.query('delete from webhook_deliveries')
  const now = new Date(house.clock.now()).toISOString()
  await house.database.query(
    `insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, created_at)
     select gen_random_uuid(), $1::uuid, $2::uuid, gen_random_uuid(), 'pending', 0, 0, $3::timestamptz, false, $3::timestamptz
     from generate_series(1, 10100)`,
    [organizationId, id, now],
  )
  await house.database.query(
    `update webhook_turns set lease = gen_random_uuid(), due_at = $2::timestamptz + interval '30 s', is_slow = false
     where endpoint_id = $1::uuid`,
    [id, now],
  )
  await house.clock.turn(SECOND_MS)
  expect(await waiting()).toEqual({ new: NONE, fast: [10_000, 1], slow: NONE })
})
