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
import type { Machine } from './machine.ts'
import { plainText } from './plainText.ts'
import { readLine } from './program.ts'

/**
 * Runs one command line (the words after the program's name) and gives the exit code: 0 done, 1 failed, 2 not understood, 4 login
 * needed, 130 left by Ctrl-C. Results go to stdout; errors go to stderr, a sentence a line, or as JSON when `--json` was given.
 * Never throws.
 */
export async function runLine(argv: readonly string[], machine: Machine): Promise<number> {
  const read = readLine(CLI_COMMANDS, argv)
  if (read.kind === 'text') return await show(machine, false, { json: null, text: read.text })
  if (read.kind === 'mistake') {
    const problem = `${read.problem} (see "${['tollgate', ...read.words].join(' ')} --help")`
    printProblems(outputOf(machine), argv.includes('--json'), new CliFailure(problem, { code: 'usage' }))
    return EXIT.misunderstood
  }
  const { command, asked } = read
  try {
    return await show(machine, asked.json, await command.run(asked, machine))
  } catch (error) {
    const failure = explain(error, command, await creditAdvice(asked, machine, error))
    printProblems(outputOf(machine), asked.json, failure)
    return failure.exitCode
  }
}

function show(machine: Machine, json: boolean, result: CliResult): Promise<number> | number {
  if (!('text' in result)) return result.exitCode
  const text = machine.stdoutIsTerminal ? plainText(result.text) : result.text
  return printResult(outputOf(machine), json, { ...result, text })
}

/** Text of a model or a server must not steer the terminal. */
function outputOf({ print, stderr }: Machine): CommandOutput {
  return { print, stderr, clean: plainText }
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
