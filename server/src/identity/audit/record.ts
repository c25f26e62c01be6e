import type { Transaction } from '../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { NewAuditEntry } from './entry.ts'
import { insertAuditEntry } from './store.ts'

/** Writes down a change, in its transaction. */
export function recordAuditEntry(
  tx: Transaction,
  random: RandomBytes,
  atMs: number,
  entry: NewAuditEntry,
): Promise<void> {
  return insertAuditEntry(tx, { ...entry, id: uuidV7(atMs, random), createdAtMs: atMs })
}
