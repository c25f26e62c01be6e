import type { Queryable } from '../io/postgres/database.ts'
import { refusal } from '../kernel/errors.ts'
import { isUuid } from '../kernel/ids.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Clock } from '../kernel/time.ts'
import type { ApiKey } from './key.ts'
import { revokeKeyById } from './store.ts'

/**
 * Revokes a key for good. Every process hears of it as it commits. Revoking twice is no error and keeps the first
 * instant. Refused (`not_found`) when there is no such key.
 */
export async function revokeKey(
  dependencies: { readonly database: Queryable; readonly clock: Clock },
  id: string,
): Promise<Result<ApiKey>> {
  const revoked = isUuid(id) ? await revokeKeyById(dependencies.database, id, dependencies.clock.now()) : undefined
  if (revoked === undefined) return refused(refusal('not_found', `There is no key with the id "${id}".`))
  return ok(revoked)
}
