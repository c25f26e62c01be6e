/** The erasure of a deleted organization, as a kind of job. */

import { z } from 'zod'
import type { Transaction } from '../../infra/postgres/database.ts'
import { enqueue } from '../../jobs/enqueue.ts'
import type { JobKind } from '../../jobs/job.ts'
import { HOUR_MS } from '../../lib/time.ts'

const ErasurePayload = z.strictObject({})

export const ERASURE: JobKind<z.infer<typeof ErasurePayload>> = {
  name: 'organization_erasure',
  payload: ErasurePayload,
}

/** By then every request that was under way at the deletion has ended, and every answer that was kept for one has expired. */
const AGAIN_MS = 25 * HOUR_MS

/**
 * Enqueues the erasure of an organization in the transaction that deletes it: one for now, and one for what requests that were under
 * way still write.
 */
export async function enqueueErasures(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  const job = { organizationId, payload: {} }
  await enqueue(tx, ERASURE, { ...job, dueAtMs: nowMs, uniqueKey: 'now' })
  await enqueue(tx, ERASURE, { ...job, dueAtMs: nowMs + AGAIN_MS, uniqueKey: 'again' })
}
