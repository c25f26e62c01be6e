import type { Transaction } from '../../infra/postgres/database.ts'
import { updateFirstPaid } from './store.ts'

/** Notes that an organization has paid. True when this was its first payment. */
export function markFirstPayment(tx: Transaction, organizationId: string, atMs: number): Promise<boolean> {
  return updateFirstPaid(tx, organizationId, atMs)
}
