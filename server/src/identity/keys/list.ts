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

/**
 * Lists at most `atMost` keys of an organization, or of all (null), before the id `beforeId`, the newest first, revoked and expired
 * ones too.
 */
export function listKeyPage(
  database: Queryable,
  organizationId: string | null,
  beforeId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  return selectKeyPage(database, { organizationId, memberId: null }, beforeId, atMost)
}

/** The member that a key belongs to; null: the organization. */
export function findMemberOfKey(database: Queryable, id: string): Promise<string | null> {
  return selectMemberOfKey(database, id)
}

/** Lists at most `atMost` ids of an organization's keys, revoked and expired ones too, in their order, after `afterId`. */
export function listKeyIds(
  database: Queryable,
  organizationId: string,
  afterId: string | null,
  atMost: number,
): Promise<string[]> {
  return selectKeyIds(database, organizationId, afterId, atMost)
}
