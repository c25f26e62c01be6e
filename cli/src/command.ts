import type { ShownResult } from '../../server/src/lib/commandOutput.ts'
import type { System } from './system.ts'

/** The types of a command, its arguments, its options and its result. */

export interface CliOption {
  /** Without its dashes. */
  readonly name: string
  /** Names the value in the help, such as `FILE`; null: a flag, which takes none. */
  readonly value: string | null
  readonly summary: string
  /** The words that the option takes. */
  readonly choices?: readonly string[]
  readonly isRequired?: true
}

export interface CliArgument {
  /** Such as `PROMPT`. */
  readonly name: string
  readonly summary: string
  readonly isOptional?: true
  /** Takes all words that are left; together they are `CommandLine.words`. */
  readonly isMany?: true
}

export interface CliCommand {
  /** The words that are typed, such as `['video', 'create']`. */
  readonly words: readonly string[]
  readonly summary: string
  readonly argument?: CliArgument
  readonly options: readonly CliOption[]
  /** Command lines that can be copied. */
  readonly examples: readonly string[]
  /** True: the command talks to no server and takes no `--server`. Left out: it talks to one. */
  readonly isLocal?: true
  /** Left out of help and completion. */
  readonly isHidden?: true
  /** Does the work. Throws {@link CliFailure} for what the person can mend. */
  readonly run: (args: CommandLine, system: System) => Promise<CliResult>
}

/** A command line that was understood. */
export interface CommandLine {
  /** The argument; empty when the command takes none or got none. */
  readonly argument: string
  /** The argument's words, where the command takes many. */
  readonly words: readonly string[]
  /** The value of an option, if it was given. */
  text(name: string): string | undefined
  /** The value of an option that is required. */
  required(name: string): string
  flag(name: string): boolean
  readonly json: boolean
  /** False with `--no-input`: nothing is asked of a person. */
  readonly mayAsk: boolean
}

/** The output of a command, as JSON and as text; or the exit code of one that has printed already. */
export type CliResult = ShownResult | { readonly exitCode: number }
