/** The refusals of calls that were admitted and failed, or whose charge was not confirmed in time. */

import type { CallSignal } from '../../lib/callSignal.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import type { Log } from '../../lib/log.ts'
import { ProviderFailure, type ProviderFailureKind } from '../../providers/dialect/spec.ts'
import { toRefusal } from '../../routing/refusal.ts'

/** Nobody reads this; it ends the request. */
export const CLIENT_GONE = refusal('upstream_unavailable', 'The client closed the connection.')

/** The charge was not sent in time, and never will be. */
export const WITHDRAWN = refusal(
  'upstream_unavailable',
  'The answer is ready, but it could not be charged in time, so it is not delivered. Nothing was charged; try again shortly.',
  { retryAfterSeconds: 1 },
)

/** The charge was sent, and nobody knows yet whether it was made. */
export const LATE_WHOLE = refusal(
  'upstream_unavailable',
  'The answer is ready, but its charge could not be confirmed in time, so it is not delivered. If it was charged, the charge is credited. Try again shortly.',
  { retryAfterSeconds: 1 },
)

/** The same where the answer is kept with its charge. */
export const LATE_KEPT = refusal(
  'upstream_unavailable',
  'The answer is ready, but its charge could not be confirmed in time. Send the request again with the same Idempotency-Key: once the charge is confirmed you get this answer, charged once.',
  { retryAfterSeconds: 1 },
)

/** The same on a stream, of which all but the last part has left. */
export const LATE_STREAM = refusal(
  'upstream_unavailable',
  'The charge of this answer could not be confirmed in time, so the stream ends here. What was sent is charged.',
  { retryAfterSeconds: 1 },
)

const FAILED_HERE = refusal(
  'internal_error',
  'The call failed because of a fault in this server. Nothing was charged; it is safe to try again.',
)

/** Where an endpoint says more of a failure than what is said of every model. */
export type OwnWords = Readonly<Partial<Record<ProviderFailureKind, Refusal>>>

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
  signal: CallSignal,
  ownWords: OwnWords = {},
): Refusal {
  if (error instanceof ProviderFailure)
    return (error.publicMessage === null && ownWords[error.kind]) || toRefusal(error)
  if (signal.aborted) return CLIENT_GONE
  log.error({ err: error, chargeId }, `${name} failed`)
  return FAILED_HERE
}
