/** Everything at the same time, in an order that a seed decides: nothing is lost, nothing sent twice, nobody waits for another. */

import { afterAll, beforeAll, test } from 'bun:test'
import { withSeed } from '../../test/seeds.ts'
import { openWebhookHouse, type WebhookHouse } from '../../test/webhookHouse.ts'
import { raceWebhooks } from '../../test/webhookRaces.ts'

const SEEDS = 150

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

test('events, runners, redeliveries and deletions: each event comes as often as its attempts say', async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await withSeed(seed, () => raceWebhooks(house, seed))
  }
  console.log(`seeds: ${SEEDS} of races on webhooks`)
}, 240_000)
