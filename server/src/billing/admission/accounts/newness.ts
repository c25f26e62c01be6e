import type { Transaction } from '../../../infra/postgres/database.ts'
import { clearNewUntil } from './store.ts'

/** Ends the cap of new accounts for one that has paid, together with what says so. */
export function endNewness(tx: Transaction, organizationId: string): Promise<void> {
  return clearNewUntil(tx, organizationId)
}
