import packageJson from '../../package.json' with { type: 'json' }
import { DataKeyFailure } from '../http/dataKeys/ring.ts'
import { faultOf, isConnectionFailure, sqlStateOf } from '../infra/postgres/faults.ts'
import { type CommandProblems, describeFault, EXIT, printProblems, printResult } from '../lib/commandOutput.ts'
import { Refused } from '../lib/errors.ts'
import { type Command, CommandFailure, type CommandResult, UsageFailure } from './command.ts'
import { COMMANDS } from './commands.ts'
import type { CommandContext } from './context.ts'
import { helpFor } from './help.ts'
import { parseCommandLine } from './parse.ts'

/**
 * Runs one command line (what follows the program's name) and gives the exit code: 0 done, 1 failed, 2 not understood.
 * Results go to stdout; errors go to stderr, a sentence a line, or as JSON when `--json` was given. Never throws.
 */
export async function run(argv: readonly string[], context: CommandContext): Promise<number> {
  const parsed = parseCommandLine(COMMANDS, argv)
  if (parsed.kind === 'help') {
    return await show(context, false, { json: null, text: helpFor(COMMANDS, parsed.topic) })
  }
  if (parsed.kind === 'version') {
    return await show(context, false, { json: null, text: `tollgate ${packageJson.version}\n` })
  }
  if (parsed.kind === 'mistake') {
    const help = ['tollgate', ...parsed.topic, '--help'].join(' ')
    const problems = [`${parsed.problem} (see "${help}")`]
    printProblems(context, argv.includes('--json'), { code: 'usage', problems })
    return EXIT.misunderstood
  }
  const { command, invocation } = parsed
  try {
    return await show(context, invocation.json, await command.run(invocation, context))
  } catch (error) {
    const explained = explain(error, command)
    printProblems(context, invocation.json, explained)
    return explained.exitCode
  }
}

function show(context: CommandContext, json: boolean, result: CommandResult): Promise<number> | number {
  return 'text' in result ? printResult(context, json, result) : result.exitCode
}

interface Explained extends CommandProblems {
  readonly exitCode: number
}

function explain(error: unknown, command: Command): Explained {
  if (error instanceof UsageFailure) {
    const hint = `see "tollgate ${command.words.join(' ')} --help"`
    return {
      code: 'usage',
      problems: error.problems.map((problem) => `${problem} (${hint})`),
      exitCode: EXIT.misunderstood,
    }
  }
  if (error instanceof DataKeyFailure) return { code: 'failed', problems: [error.message], exitCode: EXIT.failed }
  if (error instanceof CommandFailure) return { code: 'failed', problems: error.problems, exitCode: EXIT.failed }
  if (error instanceof Refused) return { code: error.refusal.code, problems: [error.message], exitCode: EXIT.failed }
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  if (isConnectionFailure(error)) {
    const problem = `the database can't be reached (${message}): check that it runs and that DATABASE_URL names it`
    return { code: 'database_unreachable', problems: [problem], exitCode: EXIT.failed }
  }
  // The user may not log in, has no such database, or may not make tables in it.
  if (faultOf(error)?.connection === 'refused' || sqlStateOf(error) === '42501') {
    const problem = `the database refuses: ${message}; check the user, the password and the database in DATABASE_URL`
    return { code: 'database_refused', problems: [problem], exitCode: EXIT.failed }
  }
  const unusable = describeUnusable(error)
  if (unusable !== null) return { code: 'failed', problems: [unusable], exitCode: EXIT.failed }
  return { code: 'unexpected', problems: [isBug(error) ? describeFault(error) : message], exitCode: EXIT.failed }
}

/** Why a file or folder could not be made or written. Mostly it is the data directory, given by mistake. */
function describeUnusable(error: unknown): string | null {
  if (!(error instanceof Error && 'code' in error && 'path' in error && 'syscall' in error)) return null
  if (String(error.syscall).startsWith('spawn')) return null
  const place = String(error.path)
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `the disk that holds ${place} is full: make room, or give another --data-dir`
    case 'EEXIST':
    case 'ENOTDIR':
      return `${place} is no folder: give another --data-dir`
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
    case 'ENOENT':
      return `${place} can't be written by this user (${error.code}): allow it, or give another --data-dir`
    default:
      return null
  }
}

function isBug(error: unknown): error is Error {
  return error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
}
