import type { Database } from '../../src/infra/postgres/database.ts'
import { toTimestamp } from '../../src/lib/time.ts'
import type { TestKey } from '../customer.ts'

/** Makes jobs of an organization that were cancelled in progress, all at one instant. */
export async function cancelledInProgress(
  database: Database,
  { id, organizationId }: TestKey,
  count: number,
  atMs: number,
): Promise<void> {
  await database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status,
       cancelled_in_progress_at)
     select gen_random_uuid(), $1::uuid, $2::uuid, $4::timestamptz, 'svc/film', 'serverless', '', 1, 4, 'cancelled',
       $4::timestamptz
     from generate_series(1, $3::integer)`,
    [organizationId, id, count, toTimestamp(atMs)],
  )
}
