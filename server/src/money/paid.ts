/** Who makes a paid call, and what a call that is answered in one piece comes to. */

import type { Rider } from '../io/postgres/database.ts'
import { refusal } from '../kernel/errors.ts'

export interface PaidCaller {
  readonly organizationId: string
  readonly keyId: string
  /** The client's header of that name. */
  readonly traceparent: string | null
  /** Prepares the answer to be kept with its charge; never rejects. Left out: it is not kept. */
  readonly keep?: (body: PaidAnswer['body']) => Promise<readonly Rider[]>
}

export interface PaidAnswer {
  /** JSON, in pieces. */
  readonly body: readonly Uint8Array<ArrayBuffer>[]
  readonly costMicrocents: bigint
}

/**
 * For the client of a call that was made to its end here, while another process took its Idempotency-Key over: only that
 * one's answer is charged and kept, and the client gets it by asking again.
 */
export const SUPERSEDED = refusal(
  'idempotency_conflict',
  'Another process has taken this request with its Idempotency-Key over. Nothing was charged for this answer. ' +
    'Wait for the seconds in Retry-After and send the request again, with the same key.',
  { retryAfterSeconds: 1 },
)
