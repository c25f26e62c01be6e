import type { Queryable } from '../../../infra/postgres/database.ts'
import { DAY_MS } from '../../../lib/time.ts'
import { ensureChargePartition } from './store.ts'

/** Partitions exist this many days ahead, so that midnight never waits for one. */
const PARTITION_DAYS_AHEAD = 2

/** Makes the partitions of charges for the UTC day of an instant and the days to come. */
export async function preparePartitions(database: Queryable, nowMs: number): Promise<void> {
  for (let day = 0; day <= PARTITION_DAYS_AHEAD; day += 1) {
    await ensureChargePartition(database, nowMs + day * DAY_MS)
  }
}
