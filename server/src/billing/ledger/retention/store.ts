/** The queries that drop a day of charges. */

import { arrayLiteral, type Transaction } from '../../../infra/postgres/database.ts'
import { LOCK_CLASS } from '../../../infra/postgres/locks.ts'
import { toTimestamp } from '../../../lib/time.ts'

/**
 * Keeps writers off a day's partition until the end of the transaction. False: another process is at it, or it is
 * gone. From here on the transaction waits for any lock at most `waitMs`: writers queue behind it.
 */
export async function lockChargeDay(tx: Transaction, day: string, waitMs: number): Promise<boolean> {
  const partition = partitionOf(day)
  const rows = await tx.query<{ mine: boolean }>('select pg_try_advisory_xact_lock($1::int4, 0) as mine', [
    LOCK_CLASS.retention,
  ])
  if (rows[0]?.mine !== true) return false
  const found = await tx.query<{ there: boolean }>('select to_regclass($1) is not null as there', [partition])
  if (found[0]?.there !== true) return false
  await tx.query(`set local lock_timeout = '${Math.ceil(waitMs)}ms'`)
  await tx.query(`lock table ${partition} in share row exclusive mode`)
  return true
}

/** Organizations of a day that one statement reads or enters: it takes a quarter of a second for so many. */
const ENTERED_AT_ONCE = 10_000

/**
 * Enters, for each organization, what it was charged on a day as one movement of the ledger; a page of organizations at a time, so that
 * no statement takes longer the more of them there are.
 */
export async function enterChargesOfDay(
  tx: Transaction,
  day: string,
  entry: { readonly sourcePrefix: string; readonly sourceSuffix: string; readonly note: string; readonly atMs: number },
): Promise<void> {
  const { sourcePrefix, sourceSuffix, note, atMs } = entry
  await tx.query(
    `declare charges_of_day no scroll cursor for select organization_id::text, sum(cost_microcents)::bigint as cost
     from ${partitionOf(day)} group by organization_id having sum(cost_microcents) <> 0`,
  )
  for (;;) {
    const page = await tx.query<{ organization_id: string; cost: bigint }>(
      `fetch ${ENTERED_AT_ONCE} from charges_of_day`,
    )
    if (page.length === 0) break
    await tx.query(
      `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, note, posted_at)
       select gen_random_uuid(), organization_id, -cost, 'charges', $3::text || organization_id || $4::text, $5, $6::timestamptz
       from unnest($1::text::uuid[], $2::text::bigint[]) as c (organization_id, cost)`,
      [
        arrayLiteral(page.map((row) => row.organization_id)),
        arrayLiteral(page.map(({ cost }) => cost)),
        sourcePrefix,
        sourceSuffix,
        note,
        toTimestamp(atMs),
      ],
    )
  }
  await tx.query('close charges_of_day')
}

/** Remembers that a day was dropped, and drops it. */
export async function dropChargeDay(tx: Transaction, day: string, atMs: number): Promise<void> {
  await tx.query(
    `insert into dropped_days as d (day, times, dropped_at) values ($1::date, 1, $2::timestamptz)
     on conflict (day) do update set times = d.times + 1, dropped_at = excluded.dropped_at`,
    [day, toTimestamp(atMs)],
  )
  await tx.query(`drop table ${partitionOf(day)}`)
}

/** The name of a day's partition. Anything but a day is a bug. */
function partitionOf(day: string): string {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError(`"${day}" is not a day`)
  return `charges_${day.replaceAll('-', '')}`
}
