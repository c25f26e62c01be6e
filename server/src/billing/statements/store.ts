import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { EntryWindow, ListedEntry } from './statement.ts'

/** The newest entries of an organization, by the index of its entries: behind the entry `afterId`, or the first ones. */
export async function selectEntries(
  db: Queryable,
  organizationId: string,
  { endMs, afterId, limit }: EntryWindow,
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
       and ($4::uuid is null or (posted_at, id) < (select posted_at, id from ledger_entries where id = $4::uuid))
     order by posted_at desc, id desc limit $3::integer`,
    [organizationId, toTimestamp(endMs), limit, afterId],
  )
  return rows.map(({ posted_at, amount_microcents, ...entry }) => ({
    ...entry,
    postedAtMs: posted_at.getTime(),
    amountMicrocents: amount_microcents,
  }))
}

/** Returns whether an organization has an entry with this id. */
export async function hasEntry(db: Queryable, organizationId: string, id: string): Promise<boolean> {
  const rows = await db.query<{ id: string }>(
    'select id from ledger_entries where id = $2::uuid and organization_id = $1::uuid',
    [organizationId, id],
  )
  return rows.length > 0
}
