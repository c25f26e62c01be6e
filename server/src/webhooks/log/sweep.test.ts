import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { startReceiver } from '../../../test/webhookReceiver.ts'
import { DAY_MS } from '../../lib/time.ts'
import { sweepWebhooks } from './sweep.ts'

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

const counts = async () => {
  const [row] = await house.database.query<Record<string, bigint>>(
    `select (select count(*) from webhook_events) as events, (select count(*) from webhook_deliveries) as deliveries,
       (select count(*) from webhook_attempts) as attempts`,
  )
  return Object.values(row ?? {}).map(Number)
}

test('events, deliveries that are over, and attempts are dropped after 30 days, and what is on its way is not', async () => {
  const receiver = await startReceiver()
  const organizationId = await house.organization()
  await house.endpoint(organizationId, receiver.url)
  await house.publish(organizationId, 'video.failed')
  await house.publish(organizationId)
  await house.deliverer().run()
  receiver.stop()
  await house.publish(organizationId)
  const sweep = () => sweepWebhooks(house, () => false)
  await house.clock.turn(30 * DAY_MS - 1)
  await sweep()
  expect(await counts()).toEqual([3, 2, 1])
  await house.clock.turn(2)
  await sweep()
  // The one that was never sent, because nobody worked for a month, and its event.
  expect(await counts()).toEqual([1, 1, 0])
})
