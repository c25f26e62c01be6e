/** Every query that ends the payments, checkouts and subscriptions of an organization that is deleted, of all payment providers. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'

/** Locks the customers of an organization at all payment providers until the end of the transaction. */
export async function lockCustomers(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('select 1 from payment_customers where organization_id = $1::uuid order by provider for update', [
    organizationId,
  ])
}

/**
 * Closes the unpaid checkouts of an organization. Open ones are marked as replaced, and due now, so that the payment provider is asked to end
 * them. Those that are being opened are marked as failed: nobody gets their addresses. Returns how many.
 */
export async function closeCheckouts(
  tx: Transaction,
  organizationId: string,
  reason: string,
  nowMs: number,
): Promise<number> {
  const rows = await tx.query(
    `update payments p set is_replaced = is_replaced or state = 'open',
       due_at = case when state = 'open' then $3::timestamptz end,
       reason = case when state = 'opening' then $2 else reason end,
       state = case when state = 'opening' then 'failed' else state end
     from (
       select id as closed from payments
       where organization_id = $1::uuid and kind = 'top_up' and state in ('opening', 'open') order by id for update
     ) c where p.id = c.closed returning p.id`,
    [organizationId, reason, toTimestamp(nowMs)],
  )
  return rows.length
}

/**
 * Closes the checkouts of an organization: those that are open are marked as replaced, and due now, so that the payment provider is asked
 * to end them; those that are being opened have failed.
 */
export async function closeSubscriptionCheckouts(
  tx: Transaction,
  organizationId: string,
  nowMs: number,
): Promise<number> {
  const rows = await tx.query(
    `update subscription_checkouts set is_replaced = is_replaced or state = 'open',
       due_at = case when state = 'open' then $2::timestamptz end,
       state = case when state = 'opening' then 'failed' else state end
     where organization_id = $1::uuid and state in ('opening', 'open') returning id`,
    [organizationId, toTimestamp(nowMs)],
  )
  return rows.length
}

/** Subscriptions of an organization that may not have ended, by their payment providers. */
export async function selectLiveSubscriptions(
  tx: Transaction,
  organizationId: string,
  ended: readonly string[],
): Promise<{ subscription: string; provider: PaymentProviderName }[]> {
  return tx.query<{ subscription: string; provider: PaymentProviderName }>(
    `select subscription, provider from payment_subscriptions
     where organization_id = $1::uuid and (status is null or status <> all($2::text::text[])) order by provider, subscription
     for update`,
    [organizationId, arrayLiteral(ended)],
  )
}

/** Makes an organization's subscriptions that may still be running due now. */
export async function hastenSubscriptions(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  await tx.query(
    'update payment_subscriptions set due_at = $2::timestamptz where organization_id = $1::uuid and due_at is not null',
    [organizationId, toTimestamp(nowMs)],
  )
}

/** Erases the links of an organization's payments: anybody who has one may open it, and a receipt names who has paid. */
export async function eraseLinksOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    `update payments set checkout_url = null, receipt_url = null
     where organization_id = $1::uuid and (checkout_url is not null or receipt_url is not null)`,
    [organizationId],
  )
}
