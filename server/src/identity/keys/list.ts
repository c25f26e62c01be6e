import type { Queryable } from '../../infra/postgres/database.ts'
import type { ListedKey } from './key.ts'
import { selectHasUsableKey, selectKeyIds, selectKeyPage, selectKeys, selectMemberOfKey } from './store.ts'

/** The keys of an organization, oldest first, revoked and expired ones too. */
export function listKeys(database: Queryable, organizationId: string): Promise<ListedKey[]> {
  return selectKeys(database, organizationId)
}

/** Returns whether any organization has a key that may be used now. */
export function hasUsableKey(database: Queryable, nowMs: number): Promise<boolean> {
  return selectHasUsableKey(database, nowMs)
}

/** The keys of an organization, or of all (null), behind an id, the newest first, revoked and expired ones too, so many at most. */
export function listKeyPage(
  database: Queryable,
  organizationId: string | null,
  behindId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  return selectKeyPage(database, { organizationId, memberId: null }, behindId, atMost)
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
