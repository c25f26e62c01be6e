import { join } from 'node:path'
import { type ConfigFlags, loadConfig, locateData, locateServer } from '../config.ts'
import { systemClock } from '../io/clock.ts'
import { systemFetch } from '../io/fetch.ts'
import { migrate } from '../io/postgres/migrate.ts'
import { openDatabase } from '../io/postgres/open.ts'
import { systemRandom } from '../io/random.ts'
import { checkFile, saveFile } from '../io/saveFile.ts'
import { HOUR_MS } from '../kernel/time.ts'
import { CommandFailure } from './command.ts'
import type { CommandDatabase, DatabaseRequest, Surroundings } from './surroundings.ts'

export const MIGRATIONS_FOLDER = join(import.meta.dirname, '../../migrations')
/** For `tollgate migrate`: long enough to rewrite a large table, and still an end. */
const PATIENT_STATEMENT_TIMEOUT_MS = 12 * HOUR_MS

/** The machine itself, with the two parts that commands only hand over to. */
export function systemSurroundings(parts: Pick<Surroundings, 'pullModel' | 'serve'>): Surroundings {
  return {
    ...parts,
    clock: systemClock,
    randomBytes: systemRandom(),
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    stderrIsTerminal: process.stderr.isTTY === true,
    loadConfig: (flags) => loadConfig(flags),
    dataDirectory: (flags) => located(flags).dataDirectory,
    openDatabase: openForCommand,
    server: (url) => {
      const read = locateServer(url)
      if (!read.ok) throw new CommandFailure(...read.problems)
      return read.server
    },
    fetch: systemFetch,
    saveFile,
    checkFile,
    onInterrupt: (callback) => {
      process.once('SIGINT', callback)
      return () => process.off('SIGINT', callback)
    },
  }
}

async function openForCommand({ flags, patient, log }: DatabaseRequest): Promise<CommandDatabase> {
  const { dataDirectory, databaseUrl } = located(flags)
  const opened = await openDatabase({
    dataDir: dataDirectory,
    databaseUrl: databaseUrl?.reveal() ?? null,
    clock: systemClock,
    role: 'command',
    log,
    ...(patient ? { statementTimeoutMs: PATIENT_STATEMENT_TIMEOUT_MS } : {}),
  })
  try {
    const { applied } = await migrate(opened.database, MIGRATIONS_FOLDER, systemClock)
    return { database: opened.database, migrated: applied, release: () => opened.release() }
  } catch (error) {
    await opened.release()
    throw error
  }
}

function located(flags: ConfigFlags) {
  const read = locateData(flags)
  if (!read.ok) throw new CommandFailure(...read.problems)
  return read.location
}
