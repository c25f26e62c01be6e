import type { Transaction } from '../../io/postgres/database.ts'
import { clearNewUntil } from './store.ts'

/** Ends the cap of new organizations for one that has paid, together with what says so. */
export function endNewness(tx: Transaction, organizationId: string): Promise<void> {
  return clearNewUntil(tx, organizationId)
}
