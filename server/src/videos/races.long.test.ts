/** As many seeds of the races as fit into the time given by TOLLGATE_LONG_SECONDS, new ones every day. */

import { expect, test } from 'bun:test'
import { openVideoHouse } from '../../test/videoHouse.ts'
import { JumpingClock, raceVideos } from '../../test/videoRaces.ts'

const SECONDS = Number(process.env['TOLLGATE_LONG_SECONDS'] ?? '60')
/** A house gathers a partition of charges for each day that its clock passes. */
const SEEDS_A_HOUSE = 200

test(
  'each job ends once, whatever races',
  async () => {
    const first = Math.floor(Date.now() / 86_400_000) * 100_000
    const untilMs = performance.now() + SECONDS * 1_000
    const tally = new Map<string, number>()
    let seed = first
    while (performance.now() < untilMs) {
      const clock = new JumpingClock()
      const house = await openVideoHouse(clock, { concurrency: 3, finds: seed % 400 < SEEDS_A_HOUSE })
      for (let count = 0; count < SEEDS_A_HOUSE && performance.now() < untilMs; count += 1) {
        try {
          await raceVideos(house, clock, seed, tally)
        } catch (error) {
          throw new Error(`seed ${seed}`, { cause: error })
        }
        seed += 1
      }
      expect(await house.disagreements()).toEqual([])
      await house.close()
    }
    console.log(`seeds: ${seed - first} of races on videos from ${first}; ${[...tally].join('; ')}`)
  },
  (SECONDS + 120) * 1_000,
)
