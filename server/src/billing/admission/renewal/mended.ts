import type { Log } from '../../../lib/log.ts'
import type { OnDayMended } from './renew.ts'

/** Returns the function that logs and counts accounts whose day was a false one. */
export function createMendTeller(log: Pick<Log, 'warn'>, metrics: { readonly dayMended: () => void }): OnDayMended {
  return (organizationId) => {
    metrics.dayMended()
    log.warn(
      { organizationId },
      "an account's day lay in the future: it is the database's day again, with its spend added up anew",
    )
  }
}
