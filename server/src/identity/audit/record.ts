import { INVALID_API_KEY, NO_ADMIN } from '../../http/principal.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused } from '../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { AuditEntry, NewAuditEntry } from './entry.ts'
import { insertAuditEntry, selectUsableKey } from './store.ts'

/** Writes down a change, in its transaction. Throws as {@link writeAuditEntry}. */
export function recordAuditEntry(
  tx: Transaction,
  random: RandomBytes,
  atMs: number,
  entry: NewAuditEntry,
): Promise<void> {
  return writeAuditEntry(tx, { ...entry, id: uuidV7(atMs, random), createdAtMs: atMs })
}

/**
 * Writes an entry, once for its id. Throws {@link Refused} where a key made the change that has ended by now, or that came with an admin's
 * rights and has them no more: processes hear of that a moment later, and what such a key makes would outlive it. A change that ends the
 * key that makes it is written before it ends it.
 */
export async function writeAuditEntry(tx: Transaction, entry: AuditEntry): Promise<void> {
  const { kind, id, isAdminsKey = false } = entry.actor
  if (kind === 'api_key') {
    const key = await selectUsableKey(tx, id, entry.createdAtMs)
    if (key === undefined) throw new Refused(INVALID_API_KEY)
    if (isAdminsKey && !key.admin) throw new Refused(NO_ADMIN)
  }
  await insertAuditEntry(tx, entry)
}
