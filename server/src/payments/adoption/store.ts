/** The queries that take over what a restored backup does not have. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'

/**
 * Inserts the payment provider's id of an organization that a restored backup does not have; an older one stays. False: there is no such
 * organization.
 */
export async function insertAdoptedCustomer(
  db: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
  customer: string,
  atMs: number,
): Promise<boolean> {
  const rows = await db.query(
    `with adopted as (
       insert into payment_customers (organization_id, provider, customer, created_at)
       select id, $2, $3, $4::timestamptz from organizations where id = $1::uuid on conflict do nothing)
     select 1 from organizations where id = $1::uuid`,
    [organizationId, provider, customer, toTimestamp(atMs)],
  )
  return rows.length === 1
}

/**
 * Inserts a payment of credit that a restored backup does not have, or gives one its checkout that has none; it is due now. False: its
 * id belongs to another checkout, or its organization does not exist.
 */
export async function insertAdopted(
  db: Queryable,
  provider: PaymentProviderName,
  adopted: {
    readonly id: string
    readonly organizationId: string
    readonly checkout: string
    readonly amountCents: number
    readonly createdAtMs: number
  },
  nowMs: number,
): Promise<boolean> {
  const rows = await db.query(
    `insert into payments (id, organization_id, provider, kind, amount_cents, state, checkout, created_at, due_at)
     select $1::uuid, id, $3, 'top_up', $5::bigint, 'open', $4, $6::timestamptz, $7::timestamptz
     from organizations where id = $2::uuid
     on conflict (id) do update set state = 'open', checkout = excluded.checkout, due_at = excluded.due_at
       where payments.checkout is null and payments.organization_id = excluded.organization_id
     returning id`,
    [
      adopted.id,
      adopted.organizationId,
      provider,
      adopted.checkout,
      adopted.amountCents,
      toTimestamp(adopted.createdAtMs),
      toTimestamp(nowMs),
    ],
  )
  return rows.length === 1
}
