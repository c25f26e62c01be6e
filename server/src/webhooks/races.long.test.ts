/** As many seeds of the races as fit into the suite's share of the time, new ones every day. */

import { test } from 'bun:test'
import { freshSeeds, longSeconds, withSeed } from '../../test/seeds.ts'
import { openWebhookHouse } from '../../test/webhookHouse.ts'
import { raceWebhooks } from '../../test/webhookRaces.ts'

/** A database's tables grow with each seed, and with them the time that one takes. */
const SEEDS_A_HOUSE = 500

test(
  'each event comes as often as its attempts say, whatever races',
  async () => {
    const { first, goesOn } = freshSeeds({ aDay: 100_000 })
    let seed = first
    while (goesOn()) {
      const house = await openWebhookHouse()
      for (let count = 0; count < SEEDS_A_HOUSE && goesOn(); count += 1) {
        await withSeed(seed, () => raceWebhooks(house, seed))
        seed += 1
      }
      await house.close()
    }
    console.log(`seeds: ${seed - first} of races on webhooks from ${first}`)
  },
  (longSeconds() + 120) * 1_000,
)
