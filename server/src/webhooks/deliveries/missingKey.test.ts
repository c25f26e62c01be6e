/** A delivery whose secret can't be opened at the moment, since its data key can't be found. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { startReceiver } from '../../../test/webhookReceiver.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { FAST_LANE } from './lane.ts'

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

test('deliveries whose data key is not found are failed attempts, and are tried again later', async () => {
  const receiver = await startReceiver()
  let isMissing = true
  const real = await house.dataKeys.find(1)
  const find = async () => {
    if (isMissing) throw new Error('the database is away')
    return real
  }
  const deliverer = house.deliverer({ dataKeys: { ...house.dataKeys, find } })
  const organizationId = await house.organization()
  await house.endpoint(organizationId, receiver.url)
  const events: string[] = []
  for (let count = 0; count < FAST_LANE.inFlightEach; count += 1) events.push(await house.publish(organizationId))
  await deliverer.run()
  const [first = ''] = events
  expect(await house.deliveries(first)).toMatchObject([{ state: 'pending', log: ['internal'] }])
  expect((await house.deliveries(first))[0]?.dueInMs).toBeWithin(30_000, 33_001)
  expect(receiver.received).toEqual([])

  isMissing = false
  await house.clock.turn(34 * SECOND_MS)
  await deliverer.run()
  expect(receiver.received.map(({ headers }) => headers['svc-event-id'] ?? '').sort()).toEqual(events.toSorted())
  receiver.stop()
})
