import { INVALID_API_KEY, NO_ADMIN } from '../../http/principal.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { AuditEntry, NewAuditEntry } from './entry.ts'
import { holdKey, insertAuditEntry } from './store.ts'

const KEY_IS_CHANGING = refusal(
  'upstream_unavailable',
  'Your API key is being changed at the moment. Nothing was changed; try again.',
  { retryAfterSeconds: 1 },
)

/** Writes down a change, in its transaction. Throws as {@link writeAuditEntry}. */
export function recordAuditEntry(
  tx: Transaction,
  random: RandomBytes,
  atMs: number,
  entry: NewAuditEntry,
): Promise<void> {
  return writeAuditEntry(tx, { ...entry, id: uuidV7(atMs, random), createdAtMs: atMs }, atMs)
}

/**
 * Writes an entry, once for its id. Throws {@link Refused} where a key made the change that has ended by now, or that came with an admin's
 * rights and has them no more: processes hear of that a moment later, and what such a key makes would outlive it. A change that ends the
 * key that makes it is written before it ends it. `nowMs`: the instant at which the key must not have expired. Call it last, when the
 * transaction waits for nothing more: from then to its end a revocation of the key waits for it.
 */
export async function writeAuditEntry(tx: Transaction, entry: AuditEntry, nowMs: number): Promise<void> {
  // It may wait for the organization's row, so it comes before the key is held.
  await insertAuditEntry(tx, entry)
  const { kind, id, isAdminsKey = false } = entry.actor
  if (kind !== 'api_key') return
  const key = await holdKey(tx, id, nowMs)
  if (key === undefined) throw new Refused(KEY_IS_CHANGING)
  if (key.hasEnded) throw new Refused(INVALID_API_KEY)
  if (isAdminsKey && !key.admin) throw new Refused(NO_ADMIN)
}
