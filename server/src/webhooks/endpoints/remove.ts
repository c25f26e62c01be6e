import type { Database, Participant, Transaction } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { isUuid } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { NO_ENDPOINT, type WebhookEndpoint } from './endpoint.ts'
import { deleteEndpointRow, selectEndpointIds } from './store.ts'

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
  keep: (removed: WebhookEndpoint) => Promise<readonly Participant[]>,
): Promise<Result<null>> {
  if (!isUuid(id)) return refused(NO_ENDPOINT)
  const isGone = await database.transaction(async (tx) => {
    const removed = await deleteEndpointRow(tx, organizationId, id)
    if (removed === null) return false
    if (removed.attempt !== null) await forgetAnswer(tx, removed.attempt)
    await joinAll(tx, await keep(removed.endpoint))
    return true
  }, organizationId)
  return isGone ? ok(null) : refused(NO_ENDPOINT)
}

/**
 * Deletes the endpoints of an organization, whose row is locked, with their secrets and all that is on its way to them. Returns how
 * many there were.
 */
export async function removeEndpointsOf(
  tx: Transaction,
  forgetAnswer: RemoveDependencies['forgetAnswer'],
  organizationId: string,
): Promise<number> {
  const ids = await selectEndpointIds(tx, organizationId)
  for (const id of ids) {
    const removed = await deleteEndpointRow(tx, organizationId, id)
    if (removed !== null && removed.attempt !== null) await forgetAnswer(tx, removed.attempt)
  }
  return ids.length
}
