import { type Refusal, Refused, refusal } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'

const BROKEN = refusal(
  'internal_error',
  'The request failed because of a fault in this server. It is logged with this request id; name the id when you ask for help.',
)

/** Returns the refusal for what a handler threw: a refusal itself, or a database that is away. All else is a fault, and is logged. */
export function explain(
  {
    log,
    isDatabaseAway,
  }: {
    readonly log: Log
    /** Returns whether an error means that the database can't be asked at the moment (E14). */
    readonly isDatabaseAway: (error: unknown) => boolean
  },
  error: unknown,
  route: string,
  requestId: string,
): Refusal {
  if (error instanceof Refused) return error.refusal
  if (isDatabaseAway(error)) {
    log.warn({ err: error, route, requestId }, 'the database could not be asked')
    return refusal('upstream_unavailable', "The service can't do this at this moment; try again shortly.", {
      retryAfterSeconds: 1,
    })
  }
  log.error({ err: error, route, requestId }, 'a request failed unexpectedly')
  return BROKEN
}
