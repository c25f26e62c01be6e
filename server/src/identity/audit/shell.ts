import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import type { Actor, NewAuditEntry } from './entry.ts'
import { inTransaction } from './inTransaction.ts'
import { recordAuditEntry } from './record.ts'

/** An operator with a shell on the server, who has no name here. */
export const SHELL: Actor = { kind: 'operator', id: null, address: null }

type EntryOfShell = Omit<NewAuditEntry, 'actor'>

/** Writes the entry of a change that a shell makes, in its transaction. */
export type NoteByShell = (entry: EntryOfShell) => Promise<void>

/** Writes the entry of a change by a shell, in the transaction of the change. */
export function recordByShell(
  tx: Transaction,
  { clock, random }: { readonly clock: Clock; readonly random: RandomBytes },
  entry: EntryOfShell,
): Promise<void> {
  return recordAuditEntry(tx, random, clock.now(), { ...entry, actor: SHELL })
}

/** Makes a change by a shell and its entry in one transaction. Where the change throws a refusal, nothing is done, and that is returned. */
export function changeByShell<T>(
  { database, clock, random }: { readonly database: Database; readonly clock: Clock; readonly random: RandomBytes },
  change: (tx: Transaction, note: NoteByShell) => Promise<T>,
): Promise<Result<T>> {
  return inTransaction(database, null, (tx) => change(tx, (entry) => recordByShell(tx, { clock, random }, entry)))
}
