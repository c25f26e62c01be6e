import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import type { ApiKey } from './key.ts'
import { revokeKeyById, revokeKeysByMember, revokeKeysByOrganization } from './store.ts'

/**
 * Revokes a key for good. Every process hears of it as it commits. Revoking twice is no error and keeps the first
 * instant. Refused (`not_found`) when there is no such key.
 */
export async function revokeKey(
  dependencies: { readonly database: Queryable; readonly clock: Pick<Clock, 'now'> },
  id: string,
): Promise<Result<ApiKey>> {
  const revoked = isUuid(id) ? await revokeKeyById(dependencies.database, id, dependencies.clock.now()) : undefined
  if (revoked === undefined) return refused(refusal('not_found', `There is no key with the id "${id}": check the id.`))
  return ok(revoked)
}

/** Revokes all keys of a member; returns how many. Every process hears of it as the transaction commits. */
export function revokeKeysOfMember(tx: Transaction, memberId: string, atMs: number): Promise<number> {
  return revokeKeysByMember(tx, memberId, atMs)
}

/**
 * Revokes all keys of an organization that is deleted, and erases their names; returns how many were revoked. Every process hears of it
 * as the transaction commits.
 */
export function revokeKeysOfOrganization(tx: Transaction, organizationId: string, atMs: number): Promise<number> {
  return revokeKeysByOrganization(tx, organizationId, atMs)
}
