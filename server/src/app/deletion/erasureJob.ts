import { JOB_DONE, type JobHandler, jobHandler } from '../../jobs/handler.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { type ErasureDependencies, eraseOrganization } from './erase.ts'
import { ERASURE } from './erasure.ts'

/** More than a month in all: it fails while the database does, and shortly while a person is erased (`identity/audit/erase.ts`). */
const RETRIES_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  HOUR_MS,
  6 * HOUR_MS,
  ...Array.from({ length: 30 }, () => DAY_MS),
]

/** Rows go in batches: an attempt that was broken off has done its part, and the next one goes on. */
const TIMEOUT_MS = 10 * MINUTE_MS

/** Organizations that one process erases at the same time. */
const AT_ONCE = 2

/** Returns how the jobs are worked on that erase what is left of deleted organizations. */
export function erasureHandler(dependencies: ErasureDependencies): JobHandler {
  return jobHandler(ERASURE, {
    atOnce: AT_ONCE,
    timeoutMs: TIMEOUT_MS,
    retryMs: RETRIES_MS,
    advice: 'rows of a deleted organization still name people: look in the log for the reason',
    async handle({ organizationId }, signal) {
      await eraseOrganization(dependencies, organizationId, () => signal.throwIfAborted())
      return JOB_DONE
    },
  })
}
