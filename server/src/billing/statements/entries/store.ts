import type { Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'

/** The kinds of entries that customers see. Those that stand for the charges of a dropped day are charges, and usage has them. */
export const ENTRY_KINDS = ['credit', 'refund', 'adjustment', 'payment_refund', 'payment_dispute'] as const

/** A movement of money that is no charge, as its customer sees it. */
export interface ShownEntry {
  readonly id: string
  readonly postedAtMs: number
  readonly kind: (typeof ENTRY_KINDS)[number]
  readonly amountMicrocents: bigint
  readonly source: string
}

/** An entry's place in the list. */
export type EntryPlace = Pick<ShownEntry, 'id' | 'postedAtMs'>

/**
 * Returns at most `atMost` entries of an organization, the newest first, from the one after the place `after` on, by the index of
 * its entries.
 */
export async function selectEntryPage(
  db: Queryable,
  organizationId: string,
  after: EntryPlace | null,
  atMost: number,
): Promise<ShownEntry[]> {
  const rows = await db.query<{
    id: string
    posted_at: Date
    kind: ShownEntry['kind']
    amount_microcents: bigint
    source: string
  }>(
    `select id, posted_at, kind, amount_microcents, source from ledger_entries
     where organization_id = $1::uuid and kind <> 'charges' and ($2::timestamptz is null
       or (posted_at <= $2::timestamptz and (posted_at < $2::timestamptz or id < $3::uuid)))
     order by posted_at desc, id desc limit $4::integer`,
    [organizationId, after && toTimestamp(after.postedAtMs), after?.id ?? null, atMost],
  )
  return rows.map(({ posted_at, amount_microcents, ...entry }) => ({
    ...entry,
    postedAtMs: posted_at.getTime(),
    amountMicrocents: amount_microcents,
  }))
}
