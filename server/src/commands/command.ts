import type { Surroundings } from './surroundings.ts'

/** What a command is, to the parser, to the help, and to whoever runs it. */

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
  /** For the help. What applies it, after the environment, is config.ts. */
  readonly preset?: string
}

export interface Command {
  /** What is typed, such as `['keys', 'create']`. */
  readonly words: readonly string[]
  readonly summary: string
  /** The one argument without a name; it is always required. */
  readonly argument?: { readonly name: string; readonly summary: string }
  readonly options: readonly OptionSpec[]
  /** Command lines that can be copied. */
  readonly examples: readonly string[]
  /** Does the work. Throws {@link CommandFailure} or `Refused` for what the operator can mend. */
  readonly run: (invocation: Invocation, surroundings: Surroundings) => Promise<CommandResult>
}

/** A command line that was understood. */
export interface Invocation {
  /** The argument without a name; empty when the command takes none. */
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

/** What goes to stdout, in both ways; or the exit code of a command that has printed by itself. */
export type CommandResult = { readonly json: unknown; readonly text: string } | { readonly exitCode: number }

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

/** Left by Ctrl-C; says what goes on without it. Exit code 130, as shells give it. */
export class InterruptedFailure extends CommandFailure {}

/** Of commands that work on an installation's data. */
export const DATA_DIR_OPTION: OptionSpec = {
  name: 'data-dir',
  value: 'DIR',
  summary: 'where the database, the models and the files are',
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
