import type { Database } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'

/** The dependencies of the local payment provider. */
export interface LocalProviderDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Returns the address of a page, such as `/checkouts/lcs_…`. */
  readonly pageUrl: (path: string) => string
}
