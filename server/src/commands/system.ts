import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type ConfigFlags, loadConfig, locateData } from '../config/config.ts'
import { systemClock } from '../infra/clock.ts'
import { type DatabaseClock, openDatabaseClock } from '../infra/databaseClock.ts'
import { readClock } from '../infra/postgres/clock.ts'
import { migrate } from '../infra/postgres/migrate.ts'
import { openDatabase } from '../infra/postgres/open.ts'
import { systemRandom } from '../infra/random.ts'
import { terminalColumns } from '../lib/table.ts'
import { HOUR_MS } from '../lib/time.ts'
import { CommandFailure } from './command.ts'
import type { CommandContext, CommandDatabase, DatabaseRequest } from './context.ts'
import { findModels } from './findModels.ts'

export const MIGRATIONS_FOLDER = join(import.meta.dirname, '../../migrations')
/** For `tollgate migrate`: long enough to rewrite a large table, and still an end. */
const PATIENT_STATEMENT_TIMEOUT_MS = 12 * HOUR_MS

/** A command admits no calls: a clock that jumps while it runs is no news to its caller. */
const QUIET = { info: () => {}, warn: () => {} }

interface SystemParts extends Pick<CommandContext, 'pullModel' | 'installClusterClient' | 'serve'> {
  /** Called when writing to stdout fails. */
  readonly onOutputLost: (error: Error) => void
}

/** The machine itself, with the parts that commands only hand over to. */
export function systemContext({ onOutputLost, ...parts }: SystemParts): CommandContext {
  return {
    ...parts,
    clock: systemClock,
    randomBytes: systemRandom(),
    stdout: (text) => void process.stdout.write(text, (error) => (error ? onOutputLost(error) : undefined)),
    print: (text) =>
      new Promise((resolve, reject) => process.stdout.write(text, (error) => (error ? reject(error) : resolve()))),
    stdoutIsTerminal: process.stdout.isTTY === true,
    stdoutColumns: terminalColumns(process.stdout),
    stderr: (text) => void process.stderr.write(text),
    stderrIsTerminal: process.stderr.isTTY === true,
    loadConfig: (flags) => loadConfig(flags),
    dataDirectory: (flags) => located(flags).dataDirectory,
    openDatabase: openForCommand,
    findModels: (config) =>
      findModels(config, systemClock, { warn: (_, message) => void process.stderr.write(`tollgate: ${message}\n`) }),
  }
}

async function openForCommand({ flags, patient, log }: DatabaseRequest): Promise<CommandDatabase> {
  const { dataDirectory, databaseUrl } = located(flags)
  if (databaseUrl === null && !existsSync(join(dataDirectory, 'postgres'))) throw noDataDirectory(dataDirectory)
  const opened = await openDatabase({
    dataDir: dataDirectory,
    databaseUrl: databaseUrl?.reveal() ?? null,
    clock: systemClock,
    role: 'command',
    log,
    ...(patient ? { statementTimeoutMs: PATIENT_STATEMENT_TIMEOUT_MS } : {}),
  })
  let clock: DatabaseClock | null = null
  const release = async () => {
    clock?.close()
    await opened.release()
  }
  try {
    clock = await openDatabaseClock({ read: () => readClock(opened.database), timers: systemClock, log: QUIET })
    const { applied } = await migrate(opened.database, MIGRATIONS_FOLDER, clock)
    return { database: opened.database, clock, migrated: applied, release }
  } catch (error) {
    await release()
    throw error
  }
}

/** A command in the wrong folder must not make a database there, and answer as if all were gone. */
export function noDataDirectory(dataDirectory: string): CommandFailure {
  const missing = existsSync(dataDirectory)
    ? `there is no database in ${dataDirectory}: set DATABASE_URL if your server has it, or name its data directory`
    : `there is no data directory ${dataDirectory}: name the one of your server`
  return new CommandFailure(`${missing} with --data-dir or TOLLGATE_DATA_DIR; the first "tollgate serve" makes it`)
}

function located(flags: ConfigFlags) {
  const read = locateData(flags)
  if (!read.ok) throw new CommandFailure(...read.problems)
  return read.location
}
