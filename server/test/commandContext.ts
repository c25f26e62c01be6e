import { randomBytes } from 'node:crypto'
import type { CommandContext } from '../src/commands/context.ts'
import { run } from '../src/commands/run.ts'
import { loadConfig } from '../src/config/config.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import type { Clock } from '../src/lib/time.ts'

export interface Ran {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** Returns the context of a command: everything that `parts` do not give is absent, and fails when it is asked for. */
function commandContext(
  clock: Clock,
  say: (stream: 'stdout' | 'stderr', text: string) => void,
  parts: Partial<CommandContext>,
): CommandContext {
  const absent = (what: string) => () => Promise.reject(new Error(`nothing is ${what} here`))
  return {
    clock,
    randomBytes: (length) => randomBytes(length),
    stdout: (text) => say('stdout', text),
    print: async (text) => say('stdout', text),
    stdoutIsTerminal: false,
    stdoutColumns: 80,
    stderr: (text) => say('stderr', text),
    stderrIsTerminal: false,
    openDatabase: absent('kept'),
    loadConfig: (flags) => loadConfig(flags, {}, import.meta.dirname),
    dataDirectory: () => '/data',
    findModels: async () => [],
    pullModel: absent('pulled'),
    installClusterClient: absent('installed'),
    serve: async () => 0,
    ...parts,
  }
}

/** Runs a command line on a database of the test's, with parts of the machine replaced by `parts`. */
export async function runCommand(
  argv: readonly string[],
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  parts: Partial<CommandContext> = {},
): Promise<Ran> {
  const printed = { stdout: '', stderr: '' }
  const say = (stream: 'stdout' | 'stderr', text: string) => {
    printed[stream] += text
  }
  const openDatabase = async () => ({ database, clock, migrated: [], release: async () => {} })
  const exitCode = await run(argv, commandContext(clock, say, { openDatabase, ...parts }))
  return { exitCode, ...printed }
}
