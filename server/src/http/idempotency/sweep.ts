import type { Artifacts } from '../../infra/artifacts.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { isUuid } from '../../lib/ids.ts'
import { SWEEP_ROWS, SWEEP_STATEMENTS } from '../../lib/periodicTask.ts'
import type { Clock } from '../../lib/time.ts'
import type { Attempts } from './attempts.ts'
import { adoptAttempts, dropExpired, findAttempts, freeKeys, listOpenAttempts } from './store.ts'

export interface SweepDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly slot: () => number
  readonly attempts: Attempts
  readonly artifacts: Artifacts
}

/** Moves this process's attempts to the slot that it has now: who has its former slot may free keys that are left there. */
export async function adoptLiving({
  database,
  slot,
  attempts,
}: Pick<SweepDependencies, 'database' | 'slot' | 'attempts'>): Promise<void> {
  const living = attempts.living()
  if (living.length > 0) await adoptAttempts(database, slot(), living)
}

/** Forgets what has expired, frees keys that nobody works on, and removes files that belong to no attempt. */
export async function sweepAttempts(
  { database, clock, slot, attempts, artifacts }: SweepDependencies,
  isStopping: () => boolean = () => false,
): Promise<void> {
  await adoptLiving({ database, slot, attempts })
  await freeAbandoned(database, slot(), attempts.living)
  for (let batch = 0; batch < SWEEP_STATEMENTS && !isStopping(); batch += 1) {
    if ((await dropExpired(database, clock.now(), attempts.living(), SWEEP_ROWS)) < SWEEP_ROWS) break
  }
  // An attempt's row is there before its file: a file without a row never gets one.
  let part: { readonly name: string; readonly attempt: string }[] = []
  const removeOrphans = async () => {
    const there = await findAttempts(
      database,
      part.map(({ attempt }) => attempt),
    )
    for (const { name, attempt } of part) if (!there.has(attempt)) await artifacts.remove(name)
    part = []
  }
  for await (const name of artifacts.list(Number.POSITIVE_INFINITY)) {
    if (isStopping()) return
    const attempt = name.split('.')[0] ?? ''
    if (isUuid(attempt)) part.push({ name, attempt })
    if (part.length === SWEEP_ROWS) await removeOrphans()
  }
  await removeOrphans()
}

/**
 * Frees the keys of the slot's attempts that nobody works on: a dead owner of the slot left them behind, or they could not be freed
 * while the database was away. The living are listed after the rows were read, and an attempt lives before its row is there: so an
 * attempt that begins meanwhile is either not among the rows or among the living.
 */
export async function freeAbandoned(
  database: Database,
  slot: number,
  listLiving: () => readonly string[],
): Promise<void> {
  const open = await listOpenAttempts(database, slot)
  const living = new Set(listLiving())
  const abandoned = open.filter((attempt) => !living.has(attempt))
  if (abandoned.length > 0) await freeKeys(database, slot, abandoned)
}
