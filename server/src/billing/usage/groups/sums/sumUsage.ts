import type { Database } from '../../../../infra/postgres/database.ts'
import type { Clock } from '../../../../lib/time.ts'
import type { Window } from '../../bucket.ts'
import { blockEnd, blocksToSum, DAY_HOURS, summableUntil } from './block.ts'
import { findUsageBlocks } from './findBlocks.ts'
import { lockUsageSums, upsertDaySums, upsertLongBlockSums } from './store.ts'

/** Organizations whose usage waits to be summed, at most. One that is left out is noted again when it asks again. */
const WAITING_MOST = 1_000

/** Days, and blocks of several days, of an organization that one run sums at most. */
const BLOCKS_MOST = 400

export interface UsageSummer {
  /** Notes that somebody has asked for a window of an organization. Returns at once. */
  noteAsked(organizationId: string, window: Window): void
  /** Sums the blocks, in the windows that were asked for, whose sums do not hold. */
  run(isStopping: () => boolean): Promise<void>
}

interface SummerDependencies {
  readonly database: Database
  readonly clock: Clock
}

/** Sums usage over blocks of hours in the background, for those who ask for it. */
export function createUsageSummer(dependencies: SummerDependencies): UsageSummer {
  const asked = new Map<string, Window>()
  return {
    noteAsked(organizationId, window) {
      const before = asked.get(organizationId)
      if (before === undefined && asked.size >= WAITING_MOST) return
      asked.set(organizationId, {
        startMs: Math.min(before?.startMs ?? window.startMs, window.startMs),
        endMs: Math.max(before?.endMs ?? window.endMs, window.endMs),
      })
    },
    async run(isStopping) {
      for (const [organizationId, window] of asked) {
        if (isStopping()) return
        asked.delete(organizationId)
        await sumWindow(dependencies, organizationId, window, isStopping)
      }
    },
  }
}

/** Sums block after block, each in a transaction of its own: a run that is stopped leaves whole blocks. */
async function sumWindow(
  { database, clock }: SummerDependencies,
  organizationId: string,
  window: Window,
  isStopping: () => boolean,
): Promise<void> {
  const summableMs = summableUntil(clock.now())
  const blocks = await findUsageBlocks(database, organizationId, window)
  for (const block of blocksToSum(blocks, summableMs, BLOCKS_MOST)) {
    if (isStopping()) return
    const isMine = await database.transaction(async (tx) => {
      // The statement that sums begins when the lock is taken: so nobody writes older sums over newer ones.
      if (!(await lockUsageSums(tx, organizationId))) return false
      if (block.hours > DAY_HOURS) await upsertLongBlockSums(tx, organizationId, block.hours, block.startMs)
      else await upsertDaySums(tx, organizationId, block.startMs, Math.min(blockEnd(block), summableMs))
      return true
    })
    if (!isMine) return
  }
}
