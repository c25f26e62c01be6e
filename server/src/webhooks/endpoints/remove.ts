import type { Database, Rider, Transaction } from '../../io/postgres/database.ts'
import { isUuid } from '../../kernel/ids.ts'
import { ok, type Result, refused } from '../../kernel/result.ts'
import { NO_ENDPOINT } from './endpoint.ts'
import { deleteEndpoint } from './store.ts'

export interface RemoveDependencies {
  readonly database: Database
  /** Deletes the kept answer of an attempt, which shows the endpoint's secret (D3). */
  readonly forgetAnswer: (tx: Transaction, attempt: string) => Promise<void>
}

/** Deletes an endpoint, its secret wherever it is, and what is on its way to it. An attempt under way may still arrive. */
export async function removeEndpoint(
  { database, forgetAnswer }: RemoveDependencies,
  organizationId: string,
  id: string,
  keep: () => Promise<readonly Rider[]>,
): Promise<Result<null>> {
  if (!isUuid(id)) return refused(NO_ENDPOINT)
  const isGone = await database.transaction(async (tx) => {
    const attempt = await deleteEndpoint(tx, organizationId, id)
    if (attempt === undefined) return false
    if (attempt !== null) await forgetAnswer(tx, attempt)
    for (const ride of await keep()) await ride(tx)
    return true
  })
  return isGone ? ok(null) : refused(NO_ENDPOINT)
}
