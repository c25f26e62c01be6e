import type { Transaction } from '../infra/postgres/database.ts'
import { type JobKind, PAYLOAD_BYTES_MOST } from './job.ts'
import { insertJob } from './store.ts'

export interface EnqueuedJob<Payload> {
  /** The organization that the job counts for. Organizations take turns, so that none keeps another waiting. */
  readonly organizationId: string
  /** No secret: it stands in the table as it is. */
  readonly payload: Payload
  /** Milliseconds since the epoch; an instant that has passed means now. */
  readonly dueAtMs: number
  /** While a job of the same kind and organization with this key is kept, no other is made: 7 days after its end at least. */
  readonly uniqueKey?: string
}

/**
 * Enqueues a job in the caller's transaction: it is there when that commits. Returns whether it is new. Wake the runner
 * after the commit; else a job that is due now waits up to a second.
 *
 * @throws when the payload does not match the kind's schema or is larger than 64 KiB: that is a bug of the caller.
 */
export function enqueue<Payload>(
  tx: Transaction,
  kind: JobKind<Payload>,
  { organizationId, payload, dueAtMs, uniqueKey }: EnqueuedJob<Payload>,
): Promise<boolean> {
  const json = JSON.stringify(kind.payload.parse(payload))
  const bytes = Buffer.byteLength(json)
  if (bytes > PAYLOAD_BYTES_MOST) throw new Error(`a job of the kind "${kind.name}" has ${bytes} bytes: too many`)
  return insertJob(tx, { kind: kind.name, organizationId, payload: json, dueAtMs, uniqueKey: uniqueKey ?? null })
}
