import { Refused, TAKEN_OVER } from '../../lib/errors.ts'
import type { Participant, Transaction } from './database.ts'

/**
 * Lets participants join a transaction, one after the other. Where one of them says false, throws `Refused` with `TAKEN_OVER`, so that
 * the transaction rolls back: the request is another process's now, and only that one's effect may be committed.
 */
export async function joinAll(tx: Transaction, participants: readonly Participant[]): Promise<void> {
  for (const participant of participants) if (!(await participant(tx))) throw new Refused(TAKEN_OVER)
}
