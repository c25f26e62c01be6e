import type { ShownResult } from '../lib/commandOutput.ts'
import type { CommandContext } from './context.ts'

/** The description of a command, for the parser, the help and the program that runs it. */

export interface OptionSpec {
  /** Without its dashes. */
  readonly name: string
  /** Names the value in the help, such as `NAME`; null: a flag, which takes none. */
  readonly value: string | null
  readonly summary: string
  readonly required?: true
  /** `-5` after it is its value, and not an option. */
  readonly mayBeNegative?: true
  /** May be given more than once. */
  readonly isRepeatable?: true
  /** The default, for the help alone: config.ts applies it, after the environment. */
  readonly preset?: string
}

export interface Command {
  /** The words that are typed, such as `['keys', 'create']`. */
  readonly words: readonly string[]
  readonly summary: string
  /** The one argument without a name; it is required unless it says otherwise. */
  readonly argument?: { readonly name: string; readonly summary: string; readonly isOptional?: true }
  readonly options: readonly OptionSpec[]
  /** Command lines that can be copied. */
  readonly examples: readonly string[]
  /** Does the work. Throws {@link CommandFailure} or `Refused` for what the operator can mend. */
  readonly run: (invocation: Invocation, context: CommandContext) => Promise<CommandResult>
}

/** A command line that was understood. */
export interface Invocation {
  /** The argument without a name; empty when the command takes none or got none. */
  readonly argument: string
  /** The value of an option, if it was given. */
  text(name: string): string | undefined
  /** The values of an option that may be given more than once, as they were typed. */
  all(name: string): readonly string[]
  /** The value of an option that is required. */
  required(name: string): string
  flag(name: string): boolean
  readonly json: boolean
}

/** The output of a command, as JSON and as text; or the exit code of one that has printed already. */
export type CommandResult = ShownResult | { readonly exitCode: number }

/** Something that the operator can understand and mend. Each problem is one sentence and says what to do. */
export class CommandFailure extends Error {
  readonly problems: readonly string[]
  constructor(...problems: readonly string[]) {
    super(problems.join('; '))
    this.name = 'CommandFailure'
    this.problems = problems
  }
}

/** A value of an option that can't be used: exit code 2, like any other mistake on the command line. */
export class UsageFailure extends CommandFailure {}

/** Of commands that work on an installation's data. */
export const DATA_DIR_OPTION: OptionSpec = {
  name: 'data-dir',
  value: 'DIR',
  summary: 'the folder with the database, the models and the files',
  preset: '.tollgate',
}

/** Of commands that read the settings. */
export const CONFIG_OPTION: OptionSpec = {
  name: 'config',
  value: 'FILE',
  summary: 'the settings file',
  preset: 'tollgate.yaml',
}

/** Options that every command takes. */
export const COMMON_OPTIONS: readonly OptionSpec[] = [
  { name: 'json', value: null, summary: 'print JSON, and nothing else, on standard output' },
  { name: 'help', value: null, summary: 'show this help' },
]
