import type { Config, ConfigFlags, LoadedConfig } from '../config.ts'
import type { Database } from '../io/postgres/database.ts'
import { refuse } from '../kernel/errors.ts'
import type { Result } from '../kernel/result.ts'
import { CommandFailure, type Invocation, UsageFailure } from './command.ts'
import type { Surroundings } from './surroundings.ts'

/** What commands share: the flags, the configuration and the database that a command line names. */

/** The flags that config.ts reads, as far as they were given. */
export function flagsOf(invocation: Invocation): ConfigFlags {
  return {
    port: invocation.text('port'),
    host: invocation.text('host'),
    'data-dir': invocation.text('data-dir'),
    config: invocation.text('config'),
    'admin-port': invocation.text('admin-port'),
    processes: invocation.text('processes'),
  }
}

/** The configuration; throws all that is wrong with it. */
export async function configOf(invocation: Invocation, surroundings: Surroundings): Promise<Config> {
  return goodConfig(await surroundings.loadConfig(flagsOf(invocation)))
}

/** The configuration, or all that is wrong with it thrown. A flag that is wrong is a mistake on the command line. */
function goodConfig(loaded: LoadedConfig): Config {
  if (loaded.ok) return loaded.config
  if (loaded.problems.every((problem) => problem.startsWith('--'))) throw new UsageFailure(...loaded.problems)
  throw new CommandFailure(...loaded.problems)
}

/** Opens the database that the command line names, and gives it back whatever happens. */
export async function withDatabase<T>(
  invocation: Invocation,
  surroundings: Surroundings,
  work: (database: Database, migrated: readonly string[]) => Promise<T>,
  { patient = false } = {},
): Promise<T> {
  // With --json stderr holds the error and nothing else.
  const log = (message: string) => (invocation.json ? undefined : surroundings.stderr(`tollgate: ${message}\n`))
  const opened = await surroundings.openDatabase({ flags: flagsOf(invocation), patient, log })
  try {
    return await work(opened.database, opened.migrated)
  } finally {
    await opened.release()
  }
}

/** The value, or the refusal thrown, for `run` to print. */
export function orThrow<T>(result: Result<T>): T {
  if (result.ok) return result.value
  const { code, message, ...more } = result.refusal
  return refuse(code, message, more)
}
