import { claimAutoPay } from '../../billing/admission/balance/autoPay.ts'
import {
  ABORTED_PATIENCE_MS,
  createRunner,
  type Runner,
  type RunnerMetrics,
  STOP_PATIENCE_MS,
} from '../../jobs/runner.ts'
import { Refused } from '../../lib/errors.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { AUTO_PAY_LEASE_MS, type AutoPayDependencies, type AutoPayJob, runAutoPay } from './run.ts'

/** A balance that falls is seen so soon, where nobody wakes the runner. */
const POLL_MS = SECOND_MS

/** Accounts that one process looks at together: a slow payment provider keeps no other account waiting for long. */
const AT_ONCE = 8

export interface AutoPayRunnerDependencies extends AutoPayDependencies {
  readonly metrics?: RunnerMetrics
}

/** Makes the runner of auto-pay, which is not started yet. Any number of processes have one. */
export function createAutoPayRunner(dependencies: AutoPayRunnerDependencies): Runner {
  const { database, clock, log, metrics } = dependencies
  return createRunner<AutoPayJob>({
    clock,
    log,
    name: 'auto-pay',
    pollMs: POLL_MS,
    // Another process finds out the outcome of a payment that is left.
    patienceMs: STOP_PATIENCE_MS,
    abortedPatienceMs: ABORTED_PATIENCE_MS,
    // No lease is renewed: a job is claimed for longer than all of it takes.
    sources: [
      {
        kind: 'auto_pay',
        atOnce: AT_ONCE,
        // A payment may leave the balance below the threshold.
        makesDue: () => true,
        async claim({ room, begin }) {
          const nowMs = clock.now()
          const untilMs = nowMs + AUTO_PAY_LEASE_MS
          const organizations = await claimAutoPay(database, nowMs, untilMs, room)
          for (const organizationId of organizations) begin({ organizationId, untilMs })
          return organizations.length > 0
        },
        async work(job) {
          try {
            await runAutoPay(dependencies, job)
            return 'succeeded'
          } catch (error) {
            if (!(error instanceof Refused)) throw error
            const { organizationId } = job
            log.warn(
              { organizationId, err: error },
              'a payment by auto-pay could not be asked for; its outcome is found out in 5 minutes',
            )
            return 'failed'
          }
        },
      },
    ],
    idOf: ({ organizationId }) => organizationId,
    metrics,
  })
}
