import type { App } from '../app/app.ts'
import type { HttpServer } from '../infra/httpServer.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS, within } from '../lib/time.ts'

/** When all calls have ended, a client that does not read the rest of its answer holds up the end for no longer. */
const FLUSH_MS = 60 * SECOND_MS

/** The charges of calls that are ended need a few statements each; a database that does not answer must not hold up the end. */
const CHARGES_MS = 10 * SECOND_MS

export interface DrainOptions {
  readonly app: App
  /** The port that takes calls. */
  readonly server: HttpServer | undefined
  /** How long open calls may go on. */
  readonly drainMs: number
  /** Resolves when the operator's patience is at its end. */
  readonly second: Promise<void>
  readonly log: Log
  readonly clock: Clock
}

/**
 * Takes no more calls and lets the open ones end, as long as the settings and the operator's patience allow. An answer
 * that is made and charged is to reach its client too, as far as that client reads. Calls that are still open then are ended, and
 * {@link CHARGES_MS} are left to charge what their clients received (C3).
 */
export async function drain({ app, server, drainMs, second, log, clock }: DrainOptions): Promise<void> {
  log.info({}, 'stopping: open calls are allowed to end; a second signal ends them')
  const sent = server?.stop()
  const cancels: (() => void)[] = []
  const after = (delayMs: number) =>
    new Promise<void>((resolve) => {
      cancels.push(clock.after(delayMs, resolve))
    })
  const charged = app.drain()
  const drained = charged.then(() => Promise.race([sent, after(FLUSH_MS)]))
  const outcome = await Promise.race([
    drained.then(() => 'drained'),
    after(drainMs).then(() => 'late'),
    second.then(() => 'second signal'),
  ])
  if (outcome !== 'drained') {
    log.warn({ outcome }, 'calls that were still open are ended')
    await server?.kill()
    const charging = await within(clock, CHARGES_MS, charged, 'late')
    if (charging === 'late')
      log.error({}, 'some calls that were ended could not be charged in time, and are not charged')
  }
  for (const cancel of cancels) cancel()
}
