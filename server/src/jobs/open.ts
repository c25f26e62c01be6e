import type { Database } from '../infra/postgres/database.ts'
import { createMailTransport } from '../infra/smtp.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import type { SmtpServer } from '../lib/mail.ts'
import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { inWorkGauge } from './gauge.ts'
import type { JobHandler } from './handler.ts'
import { mailHandler } from './mail.ts'
import { createJobs } from './runJobs.ts'
import type { Runner, RunnerMetrics } from './runner.ts'
import { sweepJobs } from './sweep.ts'

const SWEEP_MS = 15 * MINUTE_MS

export interface JobsOptions {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: RunnerMetrics
  /** The mail server; null: no mail is sent, and whoever would enqueue one does not. */
  readonly smtp: SmtpServer | null
}

/** Opens the room of jobs. Nothing is worked on before `start`. */
export function openJobs({ smtp, ...dependencies }: JobsOptions) {
  const { database, clock } = dependencies
  const mailTransport = smtp === null ? null : createMailTransport(smtp, clock)
  let runner: Runner | null = null
  let all: readonly JobHandler[] = []
  return {
    sendsMail: mailTransport !== null,
    /** Null: there is no mail server. */
    mailTransport,
    /** Jobs were enqueued and committed. Returns at once. */
    wake: () => runner?.wake(),
    /** Begins to work on jobs, with the jobHandlers of all rooms. Once, when every room is open. */
    start(jobHandlers: readonly JobHandler[]): void {
      all = jobHandlers
      runner = createJobs({ ...dependencies, jobHandlers })
      runner.start()
    },
    jobHandlers: mailTransport === null ? [] : [mailHandler(mailTransport, clock)],
    periodicTasks: [
      {
        name: 'ended jobs',
        everyMs: SWEEP_MS,
        run: (isStopping: () => boolean) => sweepJobs({ database, clock, jobHandlers: all }, isStopping),
      },
    ],
    metrics: [inWorkGauge({ inWork: () => runner?.inWork() ?? new Map() })],
    async stop(): Promise<void> {
      await runner?.close()
    },
    close: () => mailTransport?.close(),
  }
}
