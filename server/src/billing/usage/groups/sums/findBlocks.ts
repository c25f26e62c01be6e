import type { Queryable } from '../../../../infra/postgres/database.ts'
import type { Window } from '../../bucket.ts'
import { daysTouched, type UsageBlock } from './block.ts'
import { selectUsageBlocks } from './store.ts'

/** Returns the blocks of the days that a window touches, but those without usage, and up to when their sums hold. */
export function findUsageBlocks(db: Queryable, organizationId: string, window: Window): Promise<UsageBlock[]> {
  return selectUsageBlocks(db, organizationId, daysTouched(window))
}
