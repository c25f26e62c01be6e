/** What a client is told of a call that was admitted and came to nothing. */

import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { toRefusal } from '../routing/refusal.ts'
import { UpstreamFailure, type UpstreamFailureKind } from '../upstream/spec.ts'

/** Nobody reads this; it ends the request. */
export const CLIENT_GONE = refusal('upstream_unavailable', 'The client closed the connection. Nothing was charged.')

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

const FAILED_HERE = refusal(
  'internal_error',
  'The call failed here, unexpectedly. Nothing was charged; it is safe to try again.',
)

/** Where an endpoint says more of a failure than what is said of every model. */
export type OwnWords = Readonly<Partial<Record<UpstreamFailureKind, Refusal>>>

/** The call that failed, for the log. */
interface FailedCall {
  readonly chargeId: string
  /** Such as "a call for images". */
  readonly name: string
}

/** Why a call failed, in the client's words (C7); the operator's are in the log. `signal` says that its client is gone. */
export function explainFailure(
  log: Log,
  { chargeId, name }: FailedCall,
  error: unknown,
  signal: AbortSignal,
  ownWords: OwnWords = {},
): Refusal {
  if (error instanceof UpstreamFailure)
    return (error.publicMessage === null && ownWords[error.kind]) || toRefusal(error)
  if (signal.aborted) return CLIENT_GONE
  log.error({ err: error, chargeId }, `${name} failed`)
  return FAILED_HERE
}
