import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { systemClock } from '../../infra/clock.ts'
import { openClient } from '../../infra/postgres/client.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { queueNewDeliveries } from './store.ts'

let house: WebhookHouse
let other: Database
beforeAll(async () => {
  house = await openWebhookHouse()
  other = openClient(house.databaseUrl, { maxConnections: 1, clock: systemClock })
})
afterAll(async () => {
  await other.close()
  await house.close()
})

/** The endpoints that are still to be told of an event. */
async function untold(eventId: string): Promise<string[]> {
  const rows = await house.database.query<{ endpoint_id: string }>(
    'select endpoint_id from webhook_deliveries where event_id = $1::uuid and is_new',
    [eventId],
  )
  return rows.map(({ endpoint_id }) => endpoint_id)
}

test('turns come before their deliveries: what belongs to the turn of another transaction is not locked', async () => {
  const organizationId = await house.organization()
  const held = await house.endpoint(organizationId, 'http://127.0.0.1/held')
  const free = await house.endpoint(organizationId, 'http://127.0.0.1/free')
  const eventId = await house.publish(organizationId)
  await house.database.transaction(async (holder) => {
    await holder.query('select 1 from webhook_turns where endpoint_id = $1::uuid for update', [held.id])
    await house.database.transaction(async (tx) => {
      expect(await queueNewDeliveries(tx, 10)).toBe(1)
      // As whoever deletes the endpoint does, who has its turn.
      const locked = await other.query(
        'select 1 from webhook_deliveries where endpoint_id = $1::uuid for update skip locked',
        [held.id],
      )
      expect(locked).toHaveLength(1)
      expect(
        await other.query('select 1 from webhook_deliveries where endpoint_id = $1::uuid for update skip locked', [
          free.id,
        ]),
      ).toHaveLength(0)
    })
  })
  expect(await untold(eventId)).toEqual([held.id])
  expect(await queueNewDeliveries(house.database, 10)).toBe(1)
  expect(await untold(eventId)).toEqual([])
})

test('a delivery that another transaction has locked is told the next time', async () => {
  const organizationId = await house.organization()
  await house.endpoint(organizationId, 'http://127.0.0.1/one')
  const eventId = await house.publish(organizationId)
  await house.database.transaction(async (holder) => {
    await holder.query('select 1 from webhook_deliveries where event_id = $1::uuid for update', [eventId])
    expect(await queueNewDeliveries(other, 10)).toBe(0)
  })
  expect(await queueNewDeliveries(other, 10)).toBe(1)
})

test('what two tell at the same time is told once', async () => {
  const organizationId = await house.organization()
  await house.endpoint(organizationId, 'http://127.0.0.1/many')
  for (let count = 0; count < 20; count += 1) await house.publish(organizationId)
  let told = 0
  while (told < 20) {
    const both = await Promise.all([queueNewDeliveries(house.database, 7), queueNewDeliveries(other, 7)])
    told += both[0] + both[1]
  }
  expect([told, await queueNewDeliveries(other, 7)]).toEqual([20, 0])
})
