import type { Queryable } from '../../infra/postgres/database.ts'
import type { ListedKey } from './key.ts'
import { selectKeyIds, selectKeys, selectMemberOfKey } from './store.ts'

/** The keys of an organization, or of all (null), oldest first, revoked and expired ones too. */
export function listKeys(database: Queryable, organizationId: string | null): Promise<ListedKey[]> {
  return selectKeys(database, organizationId)
}

/** The member that a key belongs to; null: the organization. */
export function findMemberOfKey(database: Queryable, id: string): Promise<string | null> {
  return selectMemberOfKey(database, id)
}

/** The ids of an organization's keys behind an id, revoked and expired ones too, in their order, so many at most. */
export function listKeyIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  return selectKeyIds(database, organizationId, afterId, atMost)
}
