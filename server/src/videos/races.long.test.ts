/** As many seeds of the races as fit into the suite's share of the time, new ones every day. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds, withSeed } from '../../test/seeds.ts'
import { openVideoHouse } from '../../test/videoHouse.ts'
import { JumpingClock, raceVideos } from '../../test/videoRaces.ts'

/** A house gathers a partition of charges for each day that its clock passes. */
const SEEDS_A_HOUSE = 200

test(
  'each job ends once, whatever races',
  async () => {
    const { first, goesOn } = freshSeeds({ aDay: 100_000 })
    const tally = new Map<string, number>()
    let seed = first
    while (goesOn()) {
      const clock = new JumpingClock()
      const house = await openVideoHouse(clock, { concurrency: 3, finds: seed % 400 < SEEDS_A_HOUSE })
      for (let count = 0; count < SEEDS_A_HOUSE && goesOn(); count += 1) {
        await withSeed(seed, () => raceVideos(house, clock, seed, tally))
        seed += 1
      }
      expect(await house.disagreements()).toEqual([])
      await house.close()
    }
    console.log(`seeds: ${seed - first} of races on videos from ${first}; ${[...tally].join('; ')}`)
  },
  (longSeconds() + 120) * 1_000,
)
