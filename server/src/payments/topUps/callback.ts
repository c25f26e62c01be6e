import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { hasCallback, insertCallback } from './store.ts'

/** Returns whether a callback was told before, and its effect committed. `event` is the payment provider's id of it. */
export function wasTold(db: Queryable, provider: PaymentProviderName, event: string): Promise<boolean> {
  return hasCallback(db, provider, event)
}

/** Notes a callback in the transaction of its effect. */
export function noteCallback(
  tx: Transaction,
  provider: PaymentProviderName,
  event: string,
  atMs: number,
): Promise<void> {
  return insertCallback(tx, provider, event, atMs)
}
