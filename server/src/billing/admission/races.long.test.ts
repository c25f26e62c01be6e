import { afterAll, beforeAll, test } from 'bun:test'
import { FastClock, type House, openHouse } from '../../../test/moneyHouse.ts'
import { race } from '../../../test/moneyRaces.ts'
import { withSeed } from '../../../test/seeds.ts'

const SEEDS = 150
const FIRST_SEED = 1_000

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

test('two processes on one account never grant or spend more than there is (many seeds)', async () => {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed += 1) {
    await withSeed(seed, () => race(house, clock, seed))
  }
  console.log(`seeds: ${SEEDS} of races for money`)
}, 240_000)
