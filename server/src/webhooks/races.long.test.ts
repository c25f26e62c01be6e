/** As many seeds of the races as fit into the time given by TOLLGATE_LONG_SECONDS, new ones every day. */

import { test } from 'bun:test'
import { openWebhookHouse } from '../../test/webhookHouse.ts'
import { raceWebhooks } from '../../test/webhookRaces.ts'

const SECONDS = Number(process.env['TOLLGATE_LONG_SECONDS'] ?? '60')
/** A database's tables grow with each seed, and with them the time that one takes. */
const SEEDS_A_HOUSE = 500

test(
  'each event comes as often as its attempts say, whatever races',
  async () => {
    const first = Math.floor(Date.now() / 86_400_000) * 100_000
    const untilMs = performance.now() + SECONDS * 1_000
    let seed = first
    while (performance.now() < untilMs) {
      const house = await openWebhookHouse()
      for (let count = 0; count < SEEDS_A_HOUSE && performance.now() < untilMs; count += 1) {
        try {
          await raceWebhooks(house, seed)
        } catch (error) {
          throw new Error(`seed ${seed}`, { cause: error })
        }
        seed += 1
      }
      await house.close()
    }
    console.log(`seeds: ${seed - first} of races on webhooks from ${first}`)
  },
  (SECONDS + 120) * 1_000,
)
