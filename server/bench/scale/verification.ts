/** The verification of one day, by the function behind `./tollgate ledger verify`. */

import { DAY_MS, utcDay } from '../../src/lib/time.ts'
import { median } from '../statistics.ts'
import { filledDays } from './books.ts'
import { disagreementsOfDay } from './disagreements.ts'
import type { Scale } from './scale.ts'
import { openSide, type Side } from './side.ts'

/** Of each day this many looks; the median counts. */
const LOOKS = 5

export async function measureVerification(scale: Scale): Promise<void> {
  const { sides, table } = scale
  const [small, large] = await lookByTurns(sides)
  const measure = 'verification of one day'
  table.add({ measure, small, large, unit: 'ms' })
  const counts = sides.map(({ size }) => size.charges / size.days)
  const [few = 1, many = 1] = counts
  table.add({
    measure: `${measure}, a charge`,
    small: (1_000 * small) / few,
    large: (1_000 * large) / many,
    unit: 'µs',
  })
}

/** The same of the large database beside one with twice as many days, and twice as many charges. */
export async function measureTwiceTheDays({ session, sides, table, mockPort }: Scale): Promise<void> {
  const [, large] = sides
  const { organizations, charges, days } = large.size
  const twice = await openSide(session, 'twice', { organizations, charges: 2 * charges, days: 2 * days }, mockPort)
  const [once, more] = await lookByTurns([large, twice])
  table.add({
    measure: `verification of one day of ${days} (small) and ${2 * days} (large)`,
    small: once,
    large: more,
    unit: 'ms',
  })
}

async function lookByTurns(sides: readonly [Side, Side]): Promise<[number, number]> {
  const took: number[][] = [[], []]
  for (let look = 0; look < LOOKS; look += 1) {
    for (const index of look % 2 === 0 ? [0, 1] : [1, 0]) {
      const side = sides[index]
      if (side === undefined) continue
      const beganAtMs = performance.now()
      const found = await disagreementsOfDay(side.database, dayOf(side))
      if (found.length > 0)
        throw new Error(`${dayOf(side)} of the ${side.name} books disagrees in ${found.length} places`)
      took[index]?.push(performance.now() - beganAtMs)
    }
  }
  const [small = [], large = []] = took
  return [median(small), median(large)]
}

/** The day before yesterday: every database has it whole, and has closed it. Where there is one day only, that. */
export function dayOf({ size, filledAtMs }: Side): string {
  const days = filledDays(size, filledAtMs)
  return utcDay((days.at(-3) ?? days[0])?.startMs ?? filledAtMs - 2 * DAY_MS)
}
