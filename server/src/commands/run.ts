import packageJson from '../../package.json' with { type: 'json' }
import { DataKeyFailure } from '../idempotency/openDataKey.ts'
import { isConnectionFailure, sqlStateOf } from '../io/postgres/client.ts'
import { Refused } from '../kernel/errors.ts'
import { type Command, CommandFailure, type CommandResult, InterruptedFailure, UsageFailure } from './command.ts'
import { COMMANDS } from './commands.ts'
import { helpFor } from './help.ts'
import { parseCommandLine } from './parse.ts'
import type { Surroundings } from './surroundings.ts'

const DONE = 0
const FAILED = 1
const MISUNDERSTOOD = 2
const INTERRUPTED = 130

/**
 * Runs one command line (what follows the program's name) and gives the exit code: 0 done, 1 failed, 2 not understood, 130
 * left by Ctrl-C.
 * Results go to stdout; errors go to stderr, a sentence a line, or as JSON when `--json` was given. Never throws.
 */
export async function run(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const parsed = parseCommandLine(COMMANDS, argv)
  if (parsed.kind === 'help') {
    surroundings.stdout(helpFor(COMMANDS, parsed.topic))
    return DONE
  }
  if (parsed.kind === 'version') {
    surroundings.stdout(`tollgate ${packageJson.version}\n`)
    return DONE
  }
  if (parsed.kind === 'mistake') {
    const help = ['tollgate', ...parsed.topic, '--help'].join(' ')
    const problems = [`${parsed.problem} (see "${help}")`]
    printProblems(surroundings, argv.includes('--json'), { code: 'usage', problems })
    return MISUNDERSTOOD
  }
  const { command, invocation } = parsed
  try {
    return printResult(surroundings, invocation.json, await command.run(invocation, surroundings))
  } catch (error) {
    const explained = explain(error, command)
    printProblems(surroundings, invocation.json, explained)
    return explained.exitCode
  }
}

function printResult(surroundings: Surroundings, json: boolean, result: CommandResult): number {
  if ('exitCode' in result) return result.exitCode
  surroundings.stdout(json ? `${JSON.stringify(result.json)}\n` : result.text)
  return DONE
}

interface Explained {
  readonly code: string
  readonly problems: readonly string[]
  readonly exitCode: number
}

function explain(error: unknown, command: Command): Explained {
  if (error instanceof UsageFailure) {
    const hint = `see "tollgate ${command.words.join(' ')} --help"`
    return { code: 'usage', problems: error.problems.map((problem) => `${problem} (${hint})`), exitCode: MISUNDERSTOOD }
  }
  if (error instanceof DataKeyFailure) return { code: 'failed', problems: [error.message], exitCode: FAILED }
  if (error instanceof InterruptedFailure) {
    return { code: 'interrupted', problems: error.problems, exitCode: INTERRUPTED }
  }
  if (error instanceof CommandFailure) return { code: 'failed', problems: error.problems, exitCode: FAILED }
  if (error instanceof Refused) return { code: error.refusal.code, problems: [error.message], exitCode: FAILED }
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  if (isConnectionFailure(error)) {
    const problem = `the database can't be reached (${message}): check that it runs and that DATABASE_URL names it`
    return { code: 'database_unreachable', problems: [problem], exitCode: FAILED }
  }
  // Who may not log in, has no such database, or may not make tables in it.
  if (/^(28|3D000|42501)/.test(sqlStateOf(error) ?? '')) {
    const problem = `the database refuses: ${message}; check the user, the password and the database in DATABASE_URL`
    return { code: 'database_refused', problems: [problem], exitCode: FAILED }
  }
  const unusable = describeUnusable(error)
  if (unusable !== null) return { code: 'failed', problems: [unusable], exitCode: FAILED }
  return { code: 'unexpected', problems: [isBug(error) ? describeBug(error) : message], exitCode: FAILED }
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
      return `${place} can't be written by this user (${error.code}): let it, or give another --data-dir`
    default:
      return null
  }
}

function isBug(error: unknown): error is Error {
  return error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
}

function describeBug(error: Error): string {
  const [, place = 'unknown place'] = /^\s*(at .*)$/m.exec(error.stack ?? '') ?? []
  return `this is a fault in Tollgate, please report it: ${error.name}: ${error.message} (${place})`
}

/** One line a problem, whatever its text: scripts read stderr line by line. */
function printProblems(
  surroundings: Surroundings,
  json: boolean,
  { code, problems }: Omit<Explained, 'exitCode'>,
): void {
  const lines = problems.map((problem) => problem.trim().replace(/\s*\n\s*/g, '; '))
  if (json) surroundings.stderr(`${JSON.stringify({ error: { code, message: lines.join('; '), problems: lines } })}\n`)
  else surroundings.stderr(lines.map((line) => `tollgate: ${line}\n`).join(''))
}
