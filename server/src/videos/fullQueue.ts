import type { Queryable } from '../infra/postgres/database.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import { countQueued } from './store.ts'

/** A client that asks again so late meets a queue that has moved on, if any provider works on it. */
const RETRY_SECONDS = 30

/** The refusal of a new job for an organization of which `queuedMost` jobs wait for their turn. */
export function fullQueue(queuedMost: number): Refusal {
  return refusal(
    'rate_limit_exceeded',
    `Your organization has ${queuedMost} videos waiting, which is the most. Wait until some have started, or cancel some.`,
    { retryAfterSeconds: RETRY_SECONDS },
  )
}

/**
 * Returns the refusal of a new job where the organization's queue is full; null where it is not. The insertion of the job
 * decides; this stands before the gates on money, in the order of E1. Rejects while the database can't be asked.
 */
export async function refuseWhenFull(
  { database, queuedMost }: { readonly database: Queryable; readonly queuedMost: number },
  organizationId: string,
): Promise<Refusal | null> {
  return (await countQueued(database, organizationId, queuedMost)) < queuedMost ? null : fullQueue(queuedMost)
}
