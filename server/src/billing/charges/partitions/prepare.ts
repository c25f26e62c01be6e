import type { Queryable } from '../../../infra/postgres/database.ts'
import { DAY_MS, utcDay } from '../../../lib/time.ts'
import { makePartition } from './store.ts'

/** Partitions exist this many days ahead, so that midnight never waits for one. */
const PARTITION_DAYS_AHEAD = 2

/** Makes the partitions of charges for the UTC day of an instant and the days to come. */
export async function preparePartitions(database: Queryable, nowMs: number): Promise<void> {
  for (let day = 0; day <= PARTITION_DAYS_AHEAD; day += 1) {
    await ensureChargePartition(database, nowMs + day * DAY_MS)
  }
}

/** Makes sure that charges admitted on the UTC day of `epochMs` have a partition, also when others do at the same time. */
export function ensureChargePartition(database: Queryable, epochMs: number): Promise<void> {
  return makePartition(database, { day: utcDay(epochMs), next: utcDay(epochMs + DAY_MS) })
}
