import type { Queryable } from '../io/postgres/database.ts'
import type { ApiKey } from './key.ts'
import { selectKeys } from './store.ts'

/** The keys of an organization, or of all (null), oldest first, revoked and expired ones too. */
export function listKeys(database: Queryable, organizationId: string | null): Promise<ApiKey[]> {
  return selectKeys(database, organizationId)
}
