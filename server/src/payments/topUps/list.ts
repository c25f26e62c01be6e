import type { Queryable } from '../../infra/postgres/database.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Payment } from '../provider/payment.ts'
import { selectPayment, selectPayments } from './store.ts'

export interface PaymentPage {
  readonly payments: readonly Payment[]
  /** The id that the next page begins behind; null on the last page. */
  readonly next: string | null
}

/** Lists payments, the newest first: of one organization, or of all where `organizationId` is null. */
export async function listPayments(
  database: Queryable,
  organizationId: string | null,
  beforeId: string | null,
  limit: number,
): Promise<PaymentPage> {
  const rows = await selectPayments(database, organizationId, beforeId, limit + 1)
  const payments = rows.slice(0, limit)
  return { payments, next: rows.length > limit ? (payments.at(-1)?.id ?? null) : null }
}

/** Returns a payment of an organization; null where it has none of this id, which may be any text. */
export async function findPayment(database: Queryable, organizationId: string, id: string): Promise<Payment | null> {
  return isUuid(id) ? selectPayment(database, organizationId, id) : null
}

/**
 * Returns whether the credit of a payment is in the balance of its organization. False where there is none of this id, which may be
 * any text.
 */
export async function isCredited(database: Queryable, id: string): Promise<boolean> {
  return isUuid(id) && (await selectPayment(database, null, id))?.state === 'paid'
}
