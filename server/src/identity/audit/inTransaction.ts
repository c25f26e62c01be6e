import type { Database, Participant, Transaction } from '../../infra/postgres/database.ts'
import { missingReferenceOf } from '../../infra/postgres/faults.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'

/** By its foreign key to the person a row was refused: the person was erased after the request was let in. */
const OF_PERSON = /_user_id_fkey$/
const ERASED = refusal('not_found', 'This account has just been erased, so nothing was changed.')

/** Work that joins a change, such as keeping its answer. It is called once the change is known. */
export type Keep<T> = (changed: T) => Promise<readonly Participant[]>

/**
 * Runs work in a transaction. Where the work throws a refusal, or names a person who was erased meanwhile, everything is rolled back and
 * the refusal is returned. `owner`: the organization that asks for the change and whose rows it locks, as in `Database.transaction`; null:
 * a person changes what is theirs, or an operator asks, who does not wait for the organization's own changes.
 */
export async function inTransaction<T>(
  database: Database,
  owner: string | null,
  work: (tx: Transaction) => Promise<T>,
  keep: Keep<T> = async () => [],
): Promise<Result<T>> {
  try {
    const value = await database.transaction(async (tx) => {
      const changed = await work(tx)
      await joinAll(tx, await keep(changed))
      return changed
    }, owner ?? undefined)
    return ok(value)
  } catch (error) {
    if (error instanceof Refused) return refused(error.refusal)
    if (OF_PERSON.test(missingReferenceOf(error) ?? '')) return refused(ERASED)
    throw error
  }
}
