import type { Transaction } from '../infra/postgres/database.ts'
import type { JobKind } from './job.ts'
import { deleteJobsOfTurn, deleteJobsWith } from './store.ts'

/**
 * Drops the jobs of a kind that are not done and whose payload has one of these values, in lower case, in a field. One that is worked on
 * at this moment may still be done. Returns how many.
 */
export function dropJobs<Payload>(
  tx: Transaction,
  { name: kind }: JobKind<Payload>,
  field: string,
  values: readonly string[],
): Promise<number> {
  return deleteJobsWith(tx, { kind, field, values })
}

/** Deletes all jobs that are queued under the turn of a person, also those that are done. */
export function dropJobsOf(tx: Transaction, turn: string): Promise<void> {
  return deleteJobsOfTurn(tx, turn)
}
