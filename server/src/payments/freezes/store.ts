/** Every query on frozen organizations. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { Freeze, FreezeReason } from './freeze.ts'

/** Inserts a freeze. Does nothing where the organization is frozen for the same cause. */
export async function insertFreeze(db: Queryable, organizationId: string, freeze: Freeze): Promise<void> {
  await db.query(
    `insert into organization_freezes (organization_id, reason, cause, note, frozen_at)
     values ($1::uuid, $2, $3, $4, $5::timestamptz) on conflict do nothing`,
    [organizationId, freeze.reason, freeze.cause, freeze.note, toTimestamp(freeze.frozenAtMs)],
  )
}

/** Deletes the freezes of a reason, of one cause or of all where that is null; returns how many there were. */
export async function deleteFreezes(
  db: Queryable,
  organizationId: string,
  reason: FreezeReason,
  cause: string | null,
): Promise<number> {
  const rows = await db.query(
    `delete from organization_freezes
     where organization_id = $1::uuid and reason = $2 and ($3::text is null or cause = $3::text) returning reason`,
    [organizationId, reason, cause],
  )
  return rows.length
}

/** Returns the freezes of an organization, the oldest first. */
export async function selectFreezes(db: Queryable, organizationId: string): Promise<Freeze[]> {
  const rows = await db.query<{ reason: FreezeReason; cause: string; note: string | null; frozen_at: Date }>(
    `select reason, cause, note, frozen_at from organization_freezes where organization_id = $1::uuid
     order by frozen_at, reason, cause`,
    [organizationId],
  )
  return rows.map(({ reason, cause, note, frozen_at }) => ({ reason, cause, note, frozenAtMs: frozen_at.getTime() }))
}
