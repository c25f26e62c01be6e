import type { Reads } from '../../../infra/postgres/reads.ts'
import type { Window } from '../bucket.ts'
import { type GroupNames, periodOf, type UsageGroupings, type UsageGroups } from './group.ts'
import { beginSnapshot, selectGroups } from './store.ts'
import { stretchesOf } from './stretch.ts'
import { findUsageBlocks } from './sums/findBlocks.ts'

/** A question for usage in groups: what its pages have in common. */
export interface GroupedUsageQuestion {
  readonly organizationId: string
  readonly groupings: UsageGroupings
  /** Whole hours. */
  readonly window: Window
}

/**
 * Returns the groups behind `after`, in the order of their names, at most `limit`, and the sums of the whole window, which are those of
 * the charges that were admitted in it. `modalities` are those of the models that are offered, by model. Which sums hold, and what they
 * are, is read from one snapshot: so the answer does not depend on what the background has summed.
 */
export function readUsageGroups(
  reads: Pick<Reads, 'transaction'>,
  { organizationId, groupings, window }: GroupedUsageQuestion,
  page: { readonly after: GroupNames | null; readonly limit: number },
  modalities: ReadonlyMap<string, string>,
): Promise<UsageGroups> {
  return reads.transaction(async (tx) => {
    await beginSnapshot(tx)
    const blocks = await findUsageBlocks(tx, organizationId, window)
    const stretches = stretchesOf(window, periodOf(groupings), blocks)
    return selectGroups(tx, { organizationId, groupings, stretches, modalities, ...page })
  })
}
