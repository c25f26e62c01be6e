import type { Queryable } from '../../infra/postgres/database.ts'
import { isUuid } from '../../lib/ids.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { type ReversiblePayment, selectPaidById } from './store.ts'

/** Returns a paid payment of a payment provider by our id of it, which may be any text; null where there is none. */
export function findPaidById(
  database: Queryable,
  provider: PaymentProviderName,
  id: string,
): Promise<ReversiblePayment | null> {
  return isUuid(id) ? selectPaidById(database, provider, id) : Promise.resolve(null)
}
