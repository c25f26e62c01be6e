import type { Folder } from '../io/folder.ts'
import type { Database } from '../io/postgres/database.ts'
import { isUuid } from '../kernel/ids.ts'
import type { Clock } from '../kernel/time.ts'
import type { Attempts } from './attempts.ts'
import { dropExpired, findAttempts, freeAbandoned } from './store.ts'

/** Rows a statement: each takes milliseconds, and locks nobody out. */
const BATCH_ROWS = 1_000

/** Statements a round; with a round a minute, more than 1,600 expired answers a second. */
const BATCHES = 100

export interface SweepDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly slot: number
  readonly attempts: Attempts
  readonly folder: Folder
}

/** Forgets what has expired, frees keys that nobody works on, and removes files that belong to no attempt. */
export async function sweepAttempts(
  { database, clock, slot, attempts, folder }: SweepDependencies,
  isStopping: () => boolean = () => false,
): Promise<void> {
  await freeAbandoned(database, slot, attempts.living())
  for (let batch = 0; batch < BATCHES && !isStopping(); batch += 1) {
    if ((await dropExpired(database, clock.now(), attempts.living(), BATCH_ROWS)) < BATCH_ROWS) break
  }
  // An attempt's row is there before its file: a file without a row never gets one.
  const files = (await folder.list()).map((name) => ({ name, attempt: name.split('.')[0] ?? '' }))
  const ours = files.filter(({ attempt }) => isUuid(attempt)).slice(0, BATCH_ROWS * BATCHES)
  for (let start = 0; start < ours.length && !isStopping(); start += BATCH_ROWS) {
    const part = ours.slice(start, start + BATCH_ROWS)
    const there = await findAttempts(
      database,
      part.map(({ attempt }) => attempt),
    )
    for (const { name, attempt } of part) if (!there.has(attempt)) await folder.remove(name)
  }
}
