/** The days of charges: those that are there, and what stands for those that retention has dropped. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { compareDroppedDay, type DroppedDifference, listChargeDays, timesDropped } from './store.ts'

/** Returns the days of whose charges there is a partition, oldest first, as `YYYY-MM-DD`. */
export function chargeDays(db: Queryable): Promise<string[]> {
  return listChargeDays(db)
}

/** The ledger's entries for a day beside its sums. */
export interface DroppedDay {
  /** How often it was dropped; 0: never. */
  readonly times: number
  /** Where entries, and charges that are still there, are not what the day's sums say. */
  readonly differences: readonly DroppedDifference[]
}

/** Holds the entries and the charges of a day against its sums; at most `limit` differences. */
export async function compareWithSums(db: Queryable, day: string, limit: number): Promise<DroppedDay> {
  const times = await timesDropped(db, day)
  const dayMs = Date.parse(`${day}T00:00:00Z`)
  return { times, differences: await compareDroppedDay(db, dayMs, droppedSourcePrefix(day), times, limit) }
}

/** Returns how the `source` of each ledger entry of a dropped day begins; the organization's id comes after it. */
export function droppedSourcePrefix(day: string): string {
  return `charges:${day}:`
}
