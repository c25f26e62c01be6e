import {
  type CommandOutput,
  describeFault,
  EXIT,
  printProblems,
  printResult,
} from '../../server/src/lib/commandOutput.ts'
import { creditAdvice } from './account/creditAdvice.ts'
import type { CliCommand, CliResult } from './command.ts'
import { CLI_COMMANDS } from './commands.ts'
import { CliFailure } from './failure.ts'
import { plainText } from './plainText.ts'
import { readLine } from './program.ts'
import type { System } from './system.ts'
import { wrapAtSpaces } from './wrap.ts'

/**
 * Runs one command line (the words after the program's name) and gives the exit code: 0 done, 1 failed, 2 not understood, 4 login
 * needed, 130 left by Ctrl-C. Results go to stdout; errors go to stderr, a sentence a line, or as JSON when `--json` was given.
 * Never throws.
 */
export async function runLine(argv: readonly string[], system: System): Promise<number> {
  const read = readLine(CLI_COMMANDS, argv)
  if (read.kind === 'text') return await show(system, false, { json: null, text: read.text })
  if (read.kind === 'mistake') {
    const problem = `${read.problem} (see "${['tollgate', ...read.words].join(' ')} --help")`
    const isJson = argv.includes('--json')
    printProblems(outputOf({ ...system, isJson }), isJson, new CliFailure(problem, { code: 'usage' }))
    return EXIT.misunderstood
  }
  const { command, args } = read
  const told = args.json ? { ...system, isJson: true } : system
  try {
    return await show(told, args.json, await command.run(args, told))
  } catch (error) {
    const failure = explain(error, command, await creditAdvice(args, told, error))
    printProblems(outputOf(told), args.json, failure)
    return failure.exitCode
  }
}

function show(system: System, json: boolean, result: CliResult): Promise<number> | number {
  if (!('text' in result)) return result.exitCode
  const text = system.stdoutIsTerminal ? wrapAtSpaces(plainText(result.text), system.stdoutColumns) : result.text
  return printResult(outputOf(system), json, { ...result, text })
}

/** Text of a model or a server must not steer the terminal. */
function outputOf({ print, stderr, stderrColumns, isJson }: System): CommandOutput {
  const wrapped = (text: string) => stderr(isJson === true ? text : wrapAtSpaces(text, stderrColumns))
  return { print, stderr: wrapped, clean: plainText }
}

function explain(error: unknown, { words }: CliCommand, advice: string | null): CliFailure {
  if (!(error instanceof CliFailure)) return new CliFailure(describeFault(error), { code: 'unexpected' })
  if (advice !== null) return new CliFailure(`${error.problems.join(' ')} ${advice}`, error)
  if (error.exitCode !== EXIT.misunderstood) return error
  const hint = `see "tollgate ${words.join(' ')} --help"`
  const { code, exitCode } = error
  return new CliFailure(
    error.problems.map((problem) => `${problem} (${hint})`),
    { code, exitCode },
  )
}
