import type { Config, ConfigFlags, LoadedConfig } from '../config/config.ts'
import type { Database } from '../infra/postgres/database.ts'
import { refuse } from '../lib/errors.ts'
import type { Result } from '../lib/result.ts'
import type { Clock } from '../lib/time.ts'
import { CommandFailure, type Invocation, UsageFailure } from './command.ts'
import type { CommandContext } from './context.ts'

/** The things that commands share: the flags, the configuration and the database that a command line names. */

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
export async function configOf(invocation: Invocation, context: CommandContext): Promise<Config> {
  return goodConfig(await context.loadConfig(flagsOf(invocation)))
}

/** The configuration, or all that is wrong with it thrown. A flag that is wrong is a mistake on the command line. */
function goodConfig(loaded: LoadedConfig): Config {
  if (loaded.ok) return loaded.config
  if (loaded.problems.every((problem) => problem.startsWith('--'))) throw new UsageFailure(...loaded.problems)
  throw new CommandFailure(...loaded.problems)
}

/** Opens the database that the command line names, with its clock, and gives it back whatever happens. */
export async function withDatabase<T>(
  invocation: Invocation,
  context: CommandContext,
  work: (database: Database, clock: Clock, migrated: readonly string[]) => Promise<T>,
  { patient = false } = {},
): Promise<T> {
  // With --json stderr holds errors and notices, as objects, and nothing else.
  const log = (message: string) => (invocation.json ? undefined : context.stderr(`tollgate: ${message}\n`))
  const opened = await context.openDatabase({ flags: flagsOf(invocation), patient, log })
  try {
    return await work(opened.database, opened.clock, opened.migrated)
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
