import type { Queryable } from '../../infra/postgres/database.ts'
import type { AuditEntry } from './entry.ts'
import { selectChanges } from './store.ts'

/** Lists at most `atMost` changes in an organization, the newest before the entry `beforeId`. */
export function listChanges(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<AuditEntry[]> {
  return selectChanges(database, organizationId, beforeId, atMost)
}
