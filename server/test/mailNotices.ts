import { SHELL } from '../src/identity/audit/shell.ts'
import { findOrganizationById } from '../src/identity/organizations/find.ts'
import { setNotifyAddresses } from '../src/identity/organizations/setNotifyAddresses.ts'
import { systemClock } from '../src/infra/clock.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'

/** Has the notices of an organization mailed to these addresses, as an operator does. */
export async function mailNotices(
  database: Database,
  organizationId: string,
  addresses: readonly string[],
): Promise<void> {
  const name = (await findOrganizationById(database, organizationId))?.name ?? ''
  const dependencies = { database, clock: systemClock, random: systemRandom() }
  const set = await setNotifyAddresses(dependencies, name, addresses, SHELL)
  if (!set.ok) throw new Error(set.refusal.message)
}
