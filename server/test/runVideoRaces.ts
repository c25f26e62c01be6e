/** `bun server/test/runVideoRaces.ts --seeds N --from M`: races on video jobs by hand. */

import { seeded } from './faults/seeded.ts'
import { openVideoHouse, type VideoHouse } from './videoHouse.ts'
import { JumpingClock, raceVideos } from './videoRaces.ts'

function numberOf(name: string, preset: number): number {
  const index = process.argv.indexOf(`--${name}`)
  const value = index < 0 ? preset : Number(process.argv[index + 1])
  if (!Number.isInteger(value)) throw new Error(`--${name} takes a whole number`)
  return value
}

const from = numberOf('from', 1)
const seeds = numberOf('seeds', 100)
/** A house gathers a partition of charges for each day that its clock passes. */
const SEEDS_A_HOUSE = 200
const tally = new Map<string, number>()
let failed = 0
let house: VideoHouse | null = null
let clock = new JumpingClock()
for (let seed = from; seed < from + seeds; seed += 1) {
  if (house === null) {
    const random = seeded(seed)
    clock = new JumpingClock()
    house = await openVideoHouse(clock, { concurrency: 3, finds: random.percent(50) })
  }
  try {
    await raceVideos(house, clock, seed, tally)
  } catch (error) {
    failed += 1
    console.log(`seed ${seed}`, error)
  }
  if ((seed - from) % SEEDS_A_HOUSE === SEEDS_A_HOUSE - 1 || seed === from + seeds - 1) {
    const found = await house.disagreements()
    if (found.length > 0) failed += 1
    for (const each of found) console.log(`seeds up to ${seed}`, each)
    await house.close()
    house = null
  }
}
console.log([...tally].map(([what, times]) => `${times} ${what}`).join(', '))
console.log(`seeds: ${seeds} of races on videos from ${from}, ${failed} failed`)
