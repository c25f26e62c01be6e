/** Seeds of suites: how long a suite of `test:long` goes on with fresh ones, and how a failed one is told. */

import { FIRST_SEED_VARIABLE } from './runner/failures.ts'
import { LONG_SECONDS_VARIABLE } from './runner/long.ts'

/** Run alone, a suite goes on for this long. */
const SECONDS_PRESET = 60
const DAY_MS = 86_400_000

export interface FreshSeeds {
  /** The first seed: others each day, away from those of `npm test`; `TOLLGATE_FIRST_SEED` if that is set. */
  readonly first: number
  /** For how many seconds the suite tries seeds. */
  readonly seconds: number
  /** Returns whether there is time for one more. */
  goesOn(): boolean
}

/** Seeds for a suite of `test:long` that gets through fewer than `aDay` of them a day. Its time starts now. */
export function freshSeeds({ aDay }: { readonly aDay: number }): FreshSeeds {
  const given = process.env[FIRST_SEED_VARIABLE]
  const first = given ? Number(given) : 1_000 + aDay * Math.floor(Date.now() / DAY_MS)
  if (!Number.isSafeInteger(first)) throw new Error(`${FIRST_SEED_VARIABLE} must be a whole number`)
  const seconds = longSeconds()
  const untilMs = performance.now() + seconds * 1_000
  return { first, seconds, goesOn: () => performance.now() < untilMs }
}

/** For how many seconds a suite tries seeds: its share of the run's time. */
export function longSeconds(): number {
  return Number(process.env[LONG_SECONDS_VARIABLE] || SECONDS_PRESET)
}

/** Runs one seed; an error names the seed, so that the end of a run can say how to repeat it. */
export async function withSeed<T>(seed: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}
