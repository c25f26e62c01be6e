import type { Queryable } from '../../infra/postgres/database.ts'
import type { AuditEntry } from './entry.ts'
import { selectChanges } from './store.ts'

/** Lists the changes in an organization before an entry, or the newest, so many at most. */
export function listChanges(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<AuditEntry[]> {
  return selectChanges(database, organizationId, beforeId, atMost)
}
