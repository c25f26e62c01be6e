/** The retention of one day: its charges become an entry of the ledger for each organization, and its partition is dropped. */

import { dropOldDays } from '../../src/billing/ledger/retention/dropDays.ts'
import { SILENCE } from '../../test/silence.ts'
import { median } from '../statistics.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

/** Days that are dropped of each database, one at a time. */
const DROPS = 3
/** Days that stay, for the measures that follow. */
const KEPT_LEAST = 4

/** Days that retention was told to keep, by database, so that the next drop takes one more. */
const keptDays = new WeakMap<Side, number>()

export async function measureRetention({ sides, table }: Scale): Promise<void> {
  const took: number[][] = sides.map(() => [])
  const entered: number[][] = sides.map(() => [])
  for (let drop = 0; drop < DROPS; drop += 1) {
    for (const side of drop % 2 === 0 ? sides : sides.toReversed()) {
      const before = await countEntries(side)
      const beganAtMs = performance.now()
      const dropped = await dropOneDay(side)
      if (dropped === null) return table.note('retention: not measured; there are too few days')
      took[sides.indexOf(side)]?.push(performance.now() - beganAtMs)
      entered[sides.indexOf(side)]?.push((await countEntries(side)) - before)
    }
  }
  const [small = Number.NaN, large = Number.NaN] = took.map(median)
  const [few = Number.NaN, many = Number.NaN] = entered.map(median)
  table.add({ measure: 'retention of one day', small, large, unit: 'ms' })
  table.add({ measure: 'retention of one day: entries of the ledger', small: few, large: many, unit: '' })
  table.add({
    measure: 'retention of one day, an entry',
    small: (1_000 * small) / few,
    large: (1_000 * large) / many,
    unit: 'µs',
  })
}

/**
 * Drops the oldest day that is left, as the background of a gateway does; null: too few are left. Rejects where it waits for a lock
 * for long.
 */
export async function dropOneDay(side: Side): Promise<string | null> {
  const keep = (keptDays.get(side) ?? side.size.days) - 1
  if (keep < KEPT_LEAST) return null
  const { database, filledAtMs } = side
  // By the end of the books: a midnight since then would let a second day be dropped.
  const dropped = await dropOldDays({ database, log: SILENCE }, keep - 1, filledAtMs)
  if (dropped.length !== 1)
    throw new Error(`retention dropped ${dropped.length} days of the ${side.name} books, not one`)
  keptDays.set(side, keep)
  return dropped[0] ?? null
}

async function countEntries({ database }: Side): Promise<number> {
  const [row] = await database.query<{ entries: bigint }>(
    `select count(*) as entries from ledger_entries where kind = 'charges'`,
  )
  return Number(row?.entries)
}
