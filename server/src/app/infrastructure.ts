import { createMendTeller } from '../billing/admission/renewal/mended.ts'
import type { OnDayMended } from '../billing/admission/renewal/renew.ts'
import type { Config } from '../config/config.ts'
import { createNoter, type Noter } from '../identity/audit/note.ts'
import { createMetrics, type Metrics } from '../infra/metrics.ts'
import type { Database } from '../infra/postgres/database.ts'
import { boundReads, type Reads } from '../infra/postgres/reads.ts'
import { createClientAddress } from '../lib/clientAddress.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { type ClockTrouble, clockReasons } from './readiness.ts'

/** The machine that a process runs on. */
interface Machine {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
}

/** The parts of the infrastructure that every room is given. */
export interface Infrastructure extends Machine {
  /** For reads whose clients wait: a statement that is not answered within 5 s fails. */
  readonly reads: Reads
  readonly metrics: Metrics
  /** False while the time can't be relied on: nothing is admitted then (E20). */
  readonly knowsTime: () => boolean
  /** Tells the operator of an account whose day was a false one. */
  readonly onDayMended: OnDayMended
  /** Writes changes by requests into the audit log. */
  readonly noter: Noter
}

/** Makes what the rooms of a process share. */
export function infrastructureOf({
  config,
  database,
  clock,
  random,
  log,
  clockTrouble,
  reads = database,
}: Machine & {
  readonly config: Pick<Config, 'settings'>
  readonly clockTrouble?: ClockTrouble
  readonly reads?: Reads
}): Infrastructure {
  const clientAddress = createClientAddress(config.settings.fixed.trustedProxies)
  const noter = createNoter({ clock, random, clientAddress })
  const metrics = createMetrics()
  const knowsTime = () => clockReasons(clockTrouble).length === 0
  const onDayMended = createMendTeller(log, metrics)
  return { database, reads: boundReads(reads, clock), clock, random, log, metrics, knowsTime, onDayMended, noter }
}
