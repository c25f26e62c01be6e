import { Command, CommanderError, Option } from 'commander'
import packageJson from '../package.json' with { type: 'json' }
import type { CliCommand, CliOption, CommandLine } from './command.ts'

/** Reads a command line by the table of commands. The package commander does the parsing and the help. */

/** Of commands that talk to a server. */
const SERVER_OPTION: CliOption = {
  name: 'server',
  value: 'URL',
  summary: 'the server; else TOLLGATE_URL, the server of the last login, or http://127.0.0.1:8080',
}

/** Of every command. */
const COMMON_OPTIONS: readonly CliOption[] = [
  { name: 'json', value: null, summary: 'print JSON, and nothing else, on standard output' },
  { name: 'no-input', value: null, summary: 'never ask anything' },
]

const EPILOGUE = `
Examples:
  tollgate login --with-token < key.txt
  tollgate chat "What is a toll gate?" --model svc/sandbox

The API key is read from TOLLGATE_API_KEY, else from the last login.
Exit codes: 0 done, 1 failed, 2 not understood, 4 login needed, 130 interrupted by Ctrl-C.
`

/** The first words of the operator's commands that no command here begins with. */
const OF_OPERATORS: ReadonlySet<string> = new Set([
  ...['serve', 'orgs', 'users', 'operators', 'credits', 'charges', 'refunds', 'adjustments', 'payments', 'deposits'],
  ...['subscriptions', 'ledger', 'data-key', 'config', 'migrate'],
])

/** The meaning of a command line: a command to run, a text to show, or a mistake. */
export type ReadLine =
  | { readonly kind: 'run'; readonly command: CliCommand; readonly args: CommandLine }
  | { readonly kind: 'text'; readonly text: string }
  /** `words`: those of the command, or the group of commands, whose help helps. */
  | { readonly kind: 'mistake'; readonly problem: string; readonly words: readonly string[] }

/** Reads the arguments after the program's name. Runs nothing. */
export function readLine(commands: readonly CliCommand[], argv: readonly string[]): ReadLine {
  let found: ReadLine | undefined
  let shown = ''
  const program = programOf(commands, (command, args) => {
    found = { kind: 'run', command, args }
  })
  const writeOut = (text: string) => {
    shown += text
  }
  const output = { writeOut, writeErr: () => {}, outputError: () => {} }
  for (const each of [program, ...program.commands, ...program.commands.flatMap(({ commands: inner }) => inner)])
    each.configureOutput(output).exitOverride()
  try {
    program.parse(helpLast(argv), { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { kind: 'text', text: shown }
    if (argv.length === 0) {
      program.outputHelp()
      return { kind: 'text', text: shown }
    }
    return { kind: 'mistake', problem: problemOf(error, argv), words: namedWords(commands, argv) }
  }
  return found ?? { kind: 'text', text: program.helpInformation() }
}

/** `help limits set` as `limits set --help`: commander's own `help` takes one word. */
function helpLast(argv: readonly string[]): string[] {
  const [first, ...words] = argv
  return first === 'help' && words.length > 1 ? [...words, '--help'] : [...argv]
}

/** The words at the beginning that name a command or a group of commands. */
function namedWords(commands: readonly CliCommand[], argv: readonly string[]): string[] {
  const isNamed = (words: readonly string[]) =>
    commands.some((command) => words.every((word, index) => command.words[index] === word))
  const [first, second] = argv
  if (first === undefined || !isNamed([first])) return []
  return second !== undefined && isNamed([first, second]) ? [first, second] : [first]
}

function problemOf(error: CommanderError, argv: readonly string[]): string {
  const [first = ''] = argv
  if (error.code === 'commander.unknownCommand' && OF_OPERATORS.has(first))
    return `"${first}" is a command of the operators of a server: type "./tollgate ${first}" in the checkout of Tollgate`
  // A group without its command: commander would show the group's help.
  if (error.code === 'commander.help')
    return `"${argv.filter((word) => !word.startsWith('-')).join(' ')}" needs a command`
  return error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')
}

/** Builds commander's tree from the table. */
function programOf(
  commands: readonly CliCommand[],
  onFound: (command: CliCommand, args: CommandLine) => void,
): Command {
  const program = new Command('tollgate')
    .description('The command line of Tollgate, an inference gateway that bills.')
    .version(`tollgate ${packageJson.version}`, '--version', 'show the version')
    .helpOption('--help', 'show this help')
    .helpCommand('help [command]', 'show the help of a command')
    .usage('<command> [options]')
    .addHelpText('after', EPILOGUE)
  for (const command of commands) {
    const [first = '', second] = command.words
    const group = program.commands.find((each) => each.name() === first) ?? addTo(program, first, command)
    const leaf = second === undefined ? group : addTo(group, second, command)
    describeLeaf(leaf, command, onFound)
  }
  for (const group of program.commands.filter((each) => each.description() === '')) {
    group.description(group.commands.map((each) => each.name()).join(', ')).usage('<command> [options]')
  }
  return program
}

function addTo(parent: Command, name: string, { isHidden }: CliCommand): Command {
  return parent
    .command(name, { hidden: isHidden === true })
    .helpOption('--help', 'show this help')
    .helpCommand(false)
}

function describeLeaf(
  leaf: Command,
  command: CliCommand,
  onFound: (command: CliCommand, args: CommandLine) => void,
): void {
  const { summary, argument, examples } = command
  leaf.description(summary).usage(`${argument === undefined ? '' : `${writtenArgument(argument)} `}[options]`)
  if (argument !== undefined) leaf.argument(writtenArgument(argument), argument.summary)
  for (const option of optionsOf(command)) leaf.addOption(commanderOption(option))
  if (examples.length > 0) leaf.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}`)
  leaf.action((...given: unknown[]) => {
    // After the arguments: commander itself would miss the option first.
    for (const { name, value, isRequired } of command.options) {
      if (isRequired !== true || leaf.getOptionValue(camelCase(name)) !== undefined) continue
      leaf.error(`error: required option '--${name} <${value}>' not specified`)
    }
    const [first] = argument === undefined ? [] : given
    // A group such as `limits` takes options for its commands too.
    onFound(command, argsOf(first, leaf.optsWithGlobals()))
  })
}

/** Every option that a command takes. */
export function optionsOf(command: CliCommand): readonly CliOption[] {
  return [...command.options, ...(command.isLocal === true ? [] : [SERVER_OPTION]), ...COMMON_OPTIONS]
}

function writtenArgument({ name, isOptional, isMany }: NonNullable<CliCommand['argument']>): string {
  const inner = isMany === true ? `${name}...` : name
  return isOptional === true ? `[${inner}]` : `<${inner}>`
}

function commanderOption({ name, value, summary, choices }: CliOption): Option {
  const option = new Option(value === null ? `--${name}` : `--${name} <${value}>`, summary)
  if (choices !== undefined) option.choices([...choices])
  return option
}

function argsOf(given: unknown, options: Readonly<Record<string, unknown>>): CommandLine {
  const words = Array.isArray(given) ? given.map(String) : given === undefined ? [] : [String(given)]
  const text = (name: string): string | undefined => {
    const value = options[camelCase(name)]
    return typeof value === 'string' ? value : undefined
  }
  return {
    argument: words.join(' '),
    words,
    text,
    required: (name) => {
      const value = text(name)
      if (value === undefined) throw new Error(`--${name} is not required, but was asked for`)
      return value
    },
    flag: (name) => options[camelCase(name)] === true,
    json: options['json'] === true,
    // Commander takes `--no-input` for the negative of `--input`.
    mayAsk: options['input'] !== false,
  }
}

function camelCase(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
}
