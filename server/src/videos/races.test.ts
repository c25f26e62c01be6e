import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { withSeed } from '../../test/seeds.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { JumpingClock, raceVideos } from '../../test/videoRaces.ts'

/** A few of each kind; `test:long` tries many, fresh ones. */
const SEEDS = 32

describe.each([true, false])('a provider that can be asked for our names: %p', (finds) => {
  const clock = new JumpingClock()
  let house: VideoHouse
  beforeAll(async () => {
    house = await openVideoHouse(clock, { concurrency: 3, finds })
  })
  afterAll(() => house.close())

  test('cancels, completions, expiries, deaths and take-overs: each job ends once', async () => {
    const tally = new Map<string, number>()
    for (let seed = 1; seed <= SEEDS / 2; seed += 1) {
      await withSeed(seed, () => raceVideos(house, clock, seed, tally))
    }
    // A race in which nobody died or lost would show nothing.
    for (const what of ['deaths', 'completed', 'cancelled', 'expired', 'failed (internal_error)']) {
      expect([what, (tally.get(what) ?? 0) > 0]).toEqual([what, true])
    }
    expect(await house.disagreements()).toEqual([])
    console.log(`seeds: ${SEEDS / 2} of races on videos`)
  }, 240_000)
})
