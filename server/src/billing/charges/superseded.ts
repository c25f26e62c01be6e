import { refusal } from '../../lib/errors.ts'

/**
 * For the client of a call that was made to its end here, while another process took its Idempotency-Key over. Only the
 * other process's answer is charged and kept; the client gets that answer by asking again.
 */
export const SUPERSEDED = refusal(
  'idempotency_conflict',
  'Another process has taken over this request and its Idempotency-Key. Nothing was charged for this answer. ' +
    'Wait for the seconds in Retry-After and send the request again, with the same key.',
  { retryAfterSeconds: 1 },
)
