/** The query on what is under way at payment providers. */

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

/** Counts them. Reads the entries of an index for each but auto-pay, which has at most a row an organization. */
export async function countUnderWay(db: Queryable): Promise<PaymentsUnderWay> {
  const rows = await db.query<{ subscriptions: bigint; auto_pay: bigint; payments: bigint }>(
    `select (select count(*) from payment_subscriptions where due_at is not null) as subscriptions,
       (select count(*) from auto_pay where is_enabled or is_suspended) as auto_pay,
       (select count(*) from payments where due_at is not null) as payments`,
  )
  const { subscriptions = 0n, auto_pay: autoPay = 0n, payments = 0n } = rows[0] ?? {}
  return { subscriptions: Number(subscriptions), autoPay: Number(autoPay), payments: Number(payments) }
}
