/** The start and end of serving, by one process or several: the log, the database, the models found on the machine. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Discovered } from '../catalog/discovered.ts'
import type { Settings } from '../catalog/settings.ts'
import type { Config } from '../config/config.ts'
import { sendsPasswordInClear } from '../config/values.ts'
import { type DatabaseClock, openDatabaseClock } from '../infra/databaseClock.ts'
import { createLog } from '../infra/log.ts'
import { runsAsRoot } from '../infra/ownProcess.ts'
import { readClock } from '../infra/postgres/clock.ts'
import { migrate } from '../infra/postgres/migrate.ts'
import { type OpenedDatabase, openDatabase } from '../infra/postgres/open.ts'
import { isSuperuser } from '../infra/postgres/superuser.ts'
import type { Log } from '../lib/log.ts'
import type { Clock, Timers } from '../lib/time.ts'
import { ENGINE_MISSING, isEngineInstalled } from '../providers/gguf/install.ts'
import { CommandFailure } from './command.ts'
import type { CommandContext, ServeOptions } from './context.ts'
import { findModels } from './findModels.ts'
import { refuseTestPayments } from './paymentTools.ts'
import { type Signals, stopRequests, unlessStopped } from './signals.ts'
import { MIGRATIONS_FOLDER } from './system.ts'

const DONE = 0
const FAILED = 1

/** The context in which one gateway or several start. */
export interface ServeContext
  extends ServeOptions,
    Pick<CommandContext, 'randomBytes' | 'stdout' | 'stdoutIsTerminal'> {
  readonly clock: DatabaseClock
  /** Its schema is current. */
  readonly opened: OpenedDatabase
  /** Models that were found on this machine. */
  readonly discovered: readonly Discovered[]
  readonly log: Log
  readonly signals: Signals
  readonly stopping: ReturnType<typeof stopRequests>
}

/** Starts, lets `run` serve until it is stopped, and stops, also in the middle of the start; gives the exit code. */
export async function startUp(
  options: ServeOptions,
  machine: Pick<CommandContext, 'clock' | 'randomBytes' | 'stdout' | 'stdoutIsTerminal' | 'stderr'>,
  signals: Signals,
  run: (started: ServeContext) => Promise<void>,
): Promise<number> {
  const { config } = options
  const { clock: timers, stderr } = machine
  const log = createLog(config.settings.fixed.logLevel, { write: stderr })
  const stopping = stopRequests(signals)
  const ended = stopping.first.then((reason) => {
    if (reason !== null) log.error({ reason }, 'serving can not go on')
    return reason === null ? DONE : FAILED
  })
  if (!(await isEngineInstalled())) refuseEngines(config.settings)
  await refuseHost(config, timers)
  const opening = openDatabase({
    dataDir: config.dataDirectory,
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    clock: timers,
    role: 'server',
    gateways: config.processes,
    log: (message) => log.info({}, message),
    onLost: (reason) => stopping.fail(reason),
  })
  // An embedded server that is being started, within seconds, is stopped again; a second signal leaves it to the next start.
  const opened = await unlessStopped(config.databaseUrl === null ? stopping.second : stopping.first, opening)
  if (opened === null) {
    log.info({}, 'stopped before the database was open')
    return ended
  }
  const closers: (() => void)[] = []
  try {
    const prepared = await unlessStopped(ended, prepare(config, opened, timers, log, closers))
    if (prepared !== null) await run({ ...options, ...machine, ...prepared, opened, log, signals, stopping })
    return await ended
  } finally {
    for (const close of closers) close()
    await opened.release()
    log.info({}, 'stopped')
  }
}

/** Brings the schema up to date, and looks for models. `closers` get what ends the clock. */
async function prepare(config: Config, opened: OpenedDatabase, timers: Timers, log: Log, closers: (() => void)[]) {
  const clock = await openDatabaseClock({ read: () => readClock(opened.database), timers, log })
  closers.push(() => clock.close())
  await migrate(opened.database, MIGRATIONS_FOLDER, clock)
  if (config.member === null) {
    await refuseTestPayments(config, opened.database)
    await warnOfPower(opened, needsRoot(config), log)
    warnOfRedis(config, log)
  }
  const discovered = config.member?.discovered ?? (await lookForModels(config, clock, log))
  return { clock, discovered }
}

/** A server that can't run a model of its settings does not start: it would refuse every call to that model. */
export function refuseEngines({ providers }: Pick<Settings, 'providers'>): void {
  const provider = providers.find(({ dialect }) => dialect === 'gguf')
  if (provider !== undefined) throw new CommandFailure(`provider "${provider.name}": ${ENGINE_MISSING}`)
}

/** A host that can't run the apps of the settings is refused before anything is opened: the refusal then stands alone. */
async function refuseHost({ settings }: Config, clock: Timers): Promise<void> {
  const driver = settings.fixed.instances?.driver
  if (driver?.kind !== 'process') return
  const { checkHost } = await import('../instances/drivers/process/host.ts')
  await checkHost(driver, { clock, uid: process.getuid?.() })
}

/** Apps on this host have users of their own, which root alone can give them. */
function needsRoot({ settings }: Config): boolean {
  return settings.fixed.instances?.driver.kind === 'process'
}

/** Says, in a line each, which rights the server has and does not need. */
async function warnOfPower(opened: OpenedDatabase, isRootNeeded: boolean, log: Log): Promise<void> {
  if (runsAsRoot() && !isRootNeeded)
    log.warn({}, 'Tollgate runs as root and does not need to: start it as a user of its own')
  if (!opened.embedded && (await isSuperuser(opened.database))) {
    const advice = 'use one that only owns its database (docs/operating.md, "A PostgreSQL of your own")'
    log.warn({}, `the role in DATABASE_URL is a superuser, which Tollgate does not need: ${advice}`)
  }
}

function warnOfRedis({ redisUrl }: Config, log: Log): void {
  if (redisUrl === null || !sendsPasswordInClear(redisUrl)) return
  const advice = 'use rediss://, unless nobody can listen on the network in between'
  log.warn({}, `REDIS_URL sends its password to another host without encryption: ${advice}`)
}

async function lookForModels(config: Config, clock: Clock, log: Log): Promise<readonly Discovered[]> {
  // For people who put GGUF files there.
  if (config.settings.fixed.discovery) await mkdir(join(config.dataDirectory, 'models'), { recursive: true })
  return await findModels(config, clock, log)
}
