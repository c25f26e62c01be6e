/** The queries on what is under way at payment providers, and on which have been paid at. */

import type { Queryable } from '../../infra/postgres/database.ts'

/** Things under way at payment providers, of all organizations. */
export interface PaymentsUnderWay {
  /** Those that may not have ended. */
  readonly subscriptions: number
  /** Organizations whose saved payment method pays, or pays again once it is mended. */
  readonly autoPay: number
  /** Those that a customer may still pay, or that may still come. */
  readonly payments: number
}

/**
 * Counts them, but for those at the provider `served`, where that is not null. Reads the entries of an index for each but auto-pay, which has
 * at most a row an organization.
 */
export async function countUnderWay(db: Queryable, served: string | null): Promise<PaymentsUnderWay> {
  const rows = await db.query<{ subscriptions: bigint; auto_pay: bigint; payments: bigint }>(
    `select (select count(*) from payment_subscriptions where due_at is not null and provider is distinct from $1::text) as subscriptions,
       (select count(*) from auto_pay a where (is_enabled or is_suspended) and not exists (
         select 1 from payment_customers c where c.organization_id = a.organization_id and c.provider = $1::text
       )) as auto_pay,
       (select count(*) from payments where due_at is not null and provider is distinct from $1::text) as payments`,
    [served],
  )
  const { subscriptions = 0n, auto_pay: autoPay = 0n, payments = 0n } = rows[0] ?? {}
  return { subscriptions: Number(subscriptions), autoPay: Number(autoPay), payments: Number(payments) }
}

/** Returns whether an organization has ever been a customer of another payment provider than `served`. */
export async function hasOtherCustomers(db: Queryable, served: string): Promise<boolean> {
  const rows = await db.query<{ has: boolean }>(
    'select exists (select 1 from payment_customers where provider <> $1) as has',
    [served],
  )
  return rows[0]?.has === true
}
