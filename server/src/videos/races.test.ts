import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { JumpingClock, raceVideos } from '../../test/videoRaces.ts'

const SEEDS = 300

describe.each([true, false])('an upstream that can be asked for our names: %p', (finds) => {
  const clock = new JumpingClock()
  let house: VideoHouse
  beforeAll(async () => {
    house = await openVideoHouse(clock, { concurrency: 3, finds })
  })
  afterAll(() => house.close())

  test('cancels, completions, expiries, deaths and take-overs: each job ends once', async () => {
    const tally = new Map<string, number>()
    for (let seed = 1; seed <= SEEDS / 2; seed += 1) {
      try {
        await raceVideos(house, clock, seed, tally)
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error })
      }
    }
    // A race in which nobody died or lost would show nothing.
    for (const what of ['deaths', 'completed', 'cancelled', 'expired', 'failed (internal_error)']) {
      expect([what, (tally.get(what) ?? 0) > 0]).toEqual([what, true])
    }
    expect(await house.disagreements()).toEqual([])
    console.log(`seeds: ${SEEDS / 2} of races on videos`)
  }, 240_000)
})
