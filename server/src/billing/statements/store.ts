import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { ListedEntry } from './statement.ts'

/** The newest entries of an organization, by the index of its entries. */
export async function selectEntries(
  db: Queryable,
  organizationId: string,
  endMs: number,
  limit: number,
): Promise<ListedEntry[]> {
  const rows = await db.query<{
    id: string
    posted_at: Date
    kind: ListedEntry['kind']
    amount_microcents: bigint
    source: string
    note: string | null
  }>(
    `select id, posted_at, kind, amount_microcents, source, note from ledger_entries
     where organization_id = $1::uuid and posted_at < $2::timestamptz
     order by posted_at desc, id desc limit $3::integer`,
    [organizationId, toTimestamp(endMs), limit],
  )
  return rows.map(({ posted_at, amount_microcents, ...entry }) => ({
    ...entry,
    postedAtMs: posted_at.getTime(),
    amountMicrocents: amount_microcents,
  }))
}
