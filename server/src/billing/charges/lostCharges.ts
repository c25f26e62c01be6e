import type { Log } from '../../lib/log.ts'
import type { Lost } from './keptCharges.ts'

export interface LostChargesOptions {
  readonly log: Log
  /** For metrics. */
  readonly onLost: (charges: number) => void
  /** Has every account asked again before anything more of it is spent. */
  readonly forgetShares: () => void
}

/** Says what the database has lost: in the log, as a metric, and as a warning beside readiness until the process ends. */
export function createLostCharges({ log, onLost, forgetShares }: LostChargesOptions) {
  let charges = 0
  return {
    note(lost: Lost): void {
      charges += lost.charges
      // The database may have forgotten with them what it granted, and what accounts have spent.
      forgetShares()
      onLost(lost.charges)
      log.error(
        { ...lost },
        'the database has lost charges that it had confirmed: it was restored, or its standby was behind',
      )
    },
    warnings: (): string[] =>
      charges === 0
        ? []
        : [
            `the database has lost ${charges} ${charges === 1 ? 'charge' : 'charges'} that it had confirmed to this process: see docs/operating.md`,
          ],
  }
}
