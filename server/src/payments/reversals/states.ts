import type { Queryable } from '../../infra/postgres/database.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { type KnownReversal, selectReversalStates } from './store.ts'

/** Returns refunds and disputes by the payment provider's ids of them; those that are not known are left out. */
export function reversalStates(
  db: Queryable,
  provider: PaymentProviderName,
  reversals: readonly string[],
): Promise<ReadonlyMap<string, KnownReversal>> {
  return selectReversalStates(db, provider, reversals)
}
