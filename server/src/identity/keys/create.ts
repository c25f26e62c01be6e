import { NO_ORGANIZATION } from '../../http/principal.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { Refused } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { type ApiKey, drawKey, hashKey } from './key.ts'
import { printScopes, type Scopes } from './scopes.ts'
import { announceKey, insertKey } from './store.ts'

export interface CreateKeyDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly randomBytes: RandomBytes
}

export interface NewKey {
  readonly organizationId: string
  /** The member that it belongs to; left out: the organization. */
  readonly memberId?: string | null
  /** As `parseKeyName` gives it; none unless given. */
  readonly name?: string | undefined
  readonly scopes: Scopes
  readonly admin: boolean
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAtMs: number | null
}

/** A key that was just made; the only time that its plaintext is seen. */
export interface CreatedKey {
  readonly record: ApiKey
  readonly plaintext: string
}

/**
 * Makes a key for an organization, and tells all processes, so that none goes on refusing it from memory. Throws {@link Refused} where
 * the organization is deleted, and when the database does; the key is then of no use to anyone, for nobody has seen its plaintext.
 */
export async function createKey(dependencies: CreateKeyDependencies, wanted: NewKey): Promise<CreatedKey> {
  const { database, clock, randomBytes } = dependencies
  const plaintext = drawKey(randomBytes)
  const keyHash = hashKey(plaintext)
  const nowMs = clock.now()
  const record: ApiKey = {
    id: uuidV7(nowMs, randomBytes),
    organizationId: wanted.organizationId,
    memberId: wanted.memberId ?? null,
    name: wanted.name ?? null,
    scopes: printScopes(wanted.scopes),
    admin: wanted.admin,
    createdAtMs: nowMs,
    expiresAtMs: wanted.expiresAtMs,
    revokedAtMs: null,
  }
  if (!(await insertKey(database, record, keyHash))) throw new Refused(NO_ORGANIZATION)
  // The key is made: losing its plaintext over an unsent notice would be worse than a few seconds of a stale refusal.
  await announceKey(database, keyHash).catch(() => undefined)
  return { record, plaintext }
}
