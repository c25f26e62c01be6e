/** What serving begins and ends with, by one process or several: the log, the database, what is found on the machine. */

import type { Discovered } from '../catalog/discovered.ts'
import { createLog } from '../io/log.ts'
import { migrate } from '../io/postgres/migrate.ts'
import { type OpenedDatabase, openDatabase } from '../io/postgres/open.ts'
import type { Log } from '../kernel/log.ts'
import { findModels } from './findModels.ts'
import { type Signals, stopRequests } from './signals.ts'
import type { ServeOptions, Surroundings } from './surroundings.ts'
import { MIGRATIONS_FOLDER } from './system.ts'

const DONE = 0
const FAILED = 1

/** What one gateway and several start from. */
export interface Started extends ServeOptions, Pick<Surroundings, 'clock' | 'randomBytes' | 'stdout'> {
  /** Its schema is current. */
  readonly opened: OpenedDatabase
  /** Models that were found on this machine. */
  readonly discovered: readonly Discovered[]
  readonly log: Log
  readonly signals: Signals
  readonly stopping: ReturnType<typeof stopRequests>
}

/** Starts, lets `run` serve until it is stopped, and stops; gives the exit code. */
export async function startUp(
  options: ServeOptions,
  machine: Pick<Surroundings, 'clock' | 'randomBytes' | 'stdout' | 'stderr'>,
  signals: Signals,
  run: (started: Started) => Promise<void>,
): Promise<number> {
  const { config } = options
  const { clock, stderr } = machine
  const log = createLog(config.settings.fixed.logLevel, { write: stderr })
  const stopping = stopRequests(signals)
  const opened = await openDatabase({
    dataDir: config.dataDirectory,
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    clock,
    role: 'server',
    log: (message) => log.info({}, message),
    onLost: (reason) => stopping.fail(reason),
  })
  try {
    await migrate(opened.database, MIGRATIONS_FOLDER, clock)
    const discovered = config.member?.discovered ?? (await findModels(options, clock, log))
    await run({ ...options, ...machine, opened, discovered, log, signals, stopping })
    return (await stopping.first) === null ? DONE : FAILED
  } finally {
    await opened.release()
    log.info({}, 'stopped')
  }
}
