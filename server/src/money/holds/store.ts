/** Every query on durable holds. The sum that grants are decided on stands on the row of the account. */

import type { Transaction } from '../../io/postgres/database.ts'

/** Reserves on the account what its balance leaves beside allotments and other holds. False: it leaves less. */
export async function reserve(tx: Transaction, organizationId: string, microcents: bigint): Promise<boolean> {
  const rows = await tx.query(
    `update accounts set held_microcents = held_microcents + $2::bigint
     where organization_id = $1::uuid and balance_microcents - allotted_microcents - held_microcents >= $2::bigint
     returning organization_id`,
    [organizationId, microcents],
  )
  return rows.length === 1
}

export async function insertHold(
  tx: Transaction,
  hold: { readonly id: string; readonly organizationId: string; readonly microcents: bigint },
): Promise<void> {
  await tx.query('insert into holds (id, organization_id, amount_microcents) values ($1::uuid, $2::uuid, $3::bigint)', [
    hold.id,
    hold.organizationId,
    hold.microcents,
  ])
}

/** Ends a hold and takes it off its account, whose row stays locked. Does nothing where there is none. */
export async function deleteHold(tx: Transaction, id: string): Promise<void> {
  await tx.query(
    `with gone as (delete from holds where id = $1::uuid returning organization_id, amount_microcents)
     update accounts a set held_microcents = a.held_microcents - g.amount_microcents
     from gone g where a.organization_id = g.organization_id`,
    [id],
  )
}

/** Locks an account until the end of the transaction, so that what follows waits for nobody who waits for it. */
export async function lockAccount(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('select 1 from accounts where organization_id = $1::uuid for update', [organizationId])
}
