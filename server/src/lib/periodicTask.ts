/** Work that a room has to do again and again in every process, such as a sweep. Work that must not be lost is in `jobs/`. */
export interface PeriodicTask {
  /** For the log. */
  readonly name: string
  /** Between the end of one run and the next, milliseconds. The first run comes after the same time. */
  readonly everyMs: number
  /** Does it once. A run that rejects is logged and made again. `isStopping` turns true when the process stops. */
  run(isStopping: () => boolean): Promise<unknown>
}

/** Rows that one statement of a sweep deletes at most: it takes milliseconds, and locks nobody out. */
export const SWEEP_ROWS = 1_000

/** Statements of one run of a sweep at most; with a run a minute, more than 1,600 rows a second. */
export const SWEEP_STATEMENTS = 100

/** Repeats a statement that removes so many rows at most and returns how many, until there is nothing left for it or it was enough. */
export async function sweepInBatches(
  remove: (atMost: number) => Promise<number>,
  isStopping: () => boolean,
): Promise<void> {
  for (let batch = 0; batch < SWEEP_STATEMENTS && !isStopping(); batch += 1)
    if ((await remove(SWEEP_ROWS)) < SWEEP_ROWS) break
}
