/** The queries on the shares and unfolded spend of slots. The statement that folds them is `renewal/store.ts`. */

import type { Queryable } from '../../../infra/postgres/database.ts'

/** Slots that have shares or unfolded spend, in no order. */
export async function listUnfoldedSlots(db: Queryable): Promise<number[]> {
  const has = (table: string) => `exists (select from ${table} r where r.slot = p.slot)`
  const rows = await db.query<{ slot: number }>(
    `select slot from processes p where ${has('account_shares')} or ${has('unfolded_spend')}`,
  )
  return rows.map((row) => row.slot)
}

/** Slots other than `slot` that have a share of an organization. */
export async function listSlotsOfShares(db: Queryable, organizationId: string, slot: number): Promise<number[]> {
  const rows = await db.query<{ slot: number }>(
    'select slot from account_shares where organization_id = $1::uuid and slot <> $2::integer',
    [organizationId, slot],
  )
  return rows.map((row) => row.slot)
}

/** Before all ids. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/**
 * Organizations for which a slot has a share or unfolded spend, at most `limit`, by id, those after `after`; null: from the first one
 * on. Both lists are cut before they are joined: a page reads the part of the indexes that it returns, and no more.
 */
export async function listOfSlot(db: Queryable, slot: number, limit: number, after: string | null): Promise<string[]> {
  const page = (table: string) =>
    `(select distinct organization_id from ${table} where slot = $1::integer and organization_id > $3::uuid
      order by organization_id limit $2::integer)`
  const rows = await db.query<{ organization_id: string }>(
    `select organization_id from (${page('account_shares')} union ${page('unfolded_spend')}) as o
     order by organization_id limit $2::integer`,
    [slot, limit, after ?? FIRST_ID],
  )
  return rows.map((row) => row.organization_id)
}
