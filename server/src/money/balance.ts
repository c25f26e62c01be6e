import type { Queryable } from '../io/postgres/database.ts'
import { openAccount, readAccountBalance } from './store.ts'

/**
 * The exact balance in micro-cents, every posted charge included; may be negative. Opens the account where the
 * organization never had one.
 */
export async function readBalance(database: Queryable, organizationId: string): Promise<bigint> {
  const balance = await readAccountBalance(database, organizationId)
  if (balance !== null) return balance
  await openAccount(database, organizationId)
  return 0n
}
