/** Writes charges and balances out of the database, for a program that knows nothing of it. */

import { arrayLiteral, type Database } from '../../src/infra/postgres/database.ts'

const PAGE = 10_000

/** Every charge as a line of JSON; how many there are. Amounts are text: they may not fit a double. */
export async function exportCharges(database: Database, path: string): Promise<number> {
  const writer = Bun.file(path).writer({ highWaterMark: 1 << 20 })
  let charges = 0
  let after = { admitted_at: '-infinity', id: '00000000-0000-0000-0000-000000000000' }
  for (;;) {
    const rows = await database.query<{ line: string; admitted_at: string; id: string }>(
      `select admitted_at::text as admitted_at, id::text as id, json_build_object(
         'id', replace(id::text, '-', ''), 'admittedMs', (extract(epoch from admitted_at) * 1000)::bigint,
         'organizationId', organization_id, 'keyId', key_id, 'model', model, 'tier', tier, 'prompt', prompt_tokens,
         'cached', cached_prompt_tokens, 'completion', completion_tokens, 'isEstimated', estimated,
         'costMicrocents', cost_microcents::text, 'target', target, 'outcome', outcome, 'modality', modality,
         'images', image_count, 'pixels', image_pixels, 'seconds', video_seconds)::text as line
       from named_charges where (admitted_at, id) > ($1::timestamptz, $2::uuid) order by named_charges.admitted_at, named_charges.id
       limit ${PAGE}`,
      [after.admitted_at, after.id],
    )
    for (const { line } of rows) writer.write(`${line}\n`)
    await writer.flush()
    charges += rows.length
    const last = rows.at(-1)
    if (last === undefined) break
    after = last
  }
  await writer.end()
  return charges
}

/** Jobs that are not over. */
export async function countOpenVideos(database: Database): Promise<number> {
  const rows = await database.query<{ count: bigint }>(
    `select count(*) as count from videos where status in ('queued', 'submitting', 'in_progress')`,
  )
  return Number(rows[0]?.count ?? 0n)
}

/**
 * Returns the balance of each of these organizations in the database, and the money that is held of it, micro-cents.
 */
export async function readBalances(
  database: Database,
  organizationIds: readonly string[],
): Promise<{ organizationId: string; balance: string; held: string }[]> {
  return database.query(
    `select organization_id as "organizationId", (balance_microcents - coalesce((select sum(spent_microcents)
       from unfolded_spend s where s.organization_id = a.organization_id), 0))::text as balance, held_microcents::text as held
     from accounts a where organization_id = any($1::text::uuid[])`,
    [arrayLiteral(organizationIds)],
  )
}
