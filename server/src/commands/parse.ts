import { parseArgs } from 'node:util'
import { COMMON_OPTIONS, type Command, type Invocation, type OptionSpec } from './command.ts'
import { nearestWord } from './suggest.ts'

/** The meaning of a command line. The topic of a help is a command, the first word of several, or nothing. */
export type Parsed =
  | { readonly kind: 'run'; readonly command: Command; readonly invocation: Invocation }
  | { readonly kind: 'help'; readonly topic: readonly string[] }
  | { readonly kind: 'version' }
  | { readonly kind: 'mistake'; readonly problem: string; readonly topic: readonly string[] }

/** A command line longer than this is no one's typing. */
const ARGUMENTS_MAX = 1_000

/** The first words of the customers' commands that no operator's command begins with. */
const OF_CUSTOMERS: ReadonlySet<string> = new Set([
  ...['login', 'logout', 'whoami', 'chat', 'image', 'embed', 'video', 'preflight', 'balance', 'limits', 'topup'],
  ...['webhooks', 'listen', 'completion'],
])

type Tokens = NonNullable<ReturnType<typeof parseArgs>['tokens']>

/** Reads the arguments after the program's name. Pure. */
export function parseCommandLine(commands: readonly Command[], argv: readonly string[]): Parsed {
  if (argv.length > ARGUMENTS_MAX) return { kind: 'mistake', problem: 'there are too many arguments', topic: [] }
  const tokens = tokenize(argv, allOptions(commands))
  const typed = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  const wantsHelp = typed[0] === 'help' || tokens.some((token) => token.kind === 'option' && isHelp(token.rawName))
  const words = typed[0] === 'help' ? typed.slice(1) : typed

  const command = commandOf(commands, words)
  if (command !== undefined) {
    return wantsHelp ? { kind: 'help', topic: command.words } : readInvocation(command, argv)
  }
  if (words.length === 0 && tokens.some((token) => token.kind === 'option' && token.rawName === '--version')) {
    return { kind: 'version' }
  }
  const isGroup = commands.some((each) => each.words.length > words.length && startsWith(each.words, words))
  if (isGroup && wantsHelp) return { kind: 'help', topic: words }
  if (words.length === 0) {
    const [stray] = tokens.flatMap((token) => (token.kind === 'option' ? [token.rawName] : []))
    if (stray === undefined) return { kind: 'help', topic: [] }
    return { kind: 'mistake', problem: `the command is missing before ${stray}`, topic: [] }
  }
  return unknownCommand(commands, words, isGroup)
}

function unknownCommand(commands: readonly Command[], words: readonly string[], isGroup: boolean): Parsed {
  if (isGroup) {
    const next = commands.filter((each) => startsWith(each.words, words)).map((each) => each.words[words.length])
    return { kind: 'mistake', problem: `"${words.join(' ')}" needs one of: ${next.join(', ')}`, topic: words }
  }
  const [first = ''] = words
  if (OF_CUSTOMERS.has(first)) {
    const problem = `"${first}" is a command of the customer's command line; cli/README.md tells how to install it`
    return { kind: 'mistake', problem, topic: [] }
  }
  const known = words.length > 1 && commands.some((each) => each.words[0] === words[0])
  const group = known ? words.slice(0, 1) : []
  const typed = words.slice(0, group.length + 1).join(' ')
  const near = nearestWord(typed, [...new Set(commands.map((each) => each.words.slice(0, group.length + 1).join(' ')))])
  const hint = near === undefined ? '' : `; did you mean "${near}"?`
  return { kind: 'mistake', problem: `there is no command "${typed}"${hint}`, topic: group }
}

function readInvocation(command: Command, argv: readonly string[]): Parsed {
  const options = [...command.options, ...COMMON_OPTIONS]
  const values = new Map<string, (string | true)[]>()
  const mistake = (problem: string): Parsed => ({ kind: 'mistake', problem, topic: command.words })
  const positionals: string[] = []
  for (const token of tokenize(argv, options)) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const problem = problemOf(token, options)
    if (problem !== undefined) return mistake(problem)
    const given = values.get(token.name) ?? []
    if (given.length > 0 && !isRepeatable(token.name, options)) return mistake(`${token.rawName} is given twice`)
    values.set(token.name, [...given, token.value ?? true])
  }
  const [argument, ...surplus] = positionals.slice(command.words.length)
  if (command.argument !== undefined && command.argument.isOptional !== true && argument === undefined) {
    return mistake(`${command.argument.name} is missing: ${command.argument.summary}`)
  }
  const unexpected = command.argument === undefined ? argument : surplus[0]
  if (unexpected !== undefined) return mistake(`"${unexpected}" is one argument too many`)
  const missing = options.find((option) => option.required === true && !values.has(option.name))
  if (missing !== undefined) return mistake(`--${missing.name} ${missing.value} is missing: ${missing.summary}`)
  return { kind: 'run', command, invocation: invocationOf(values, argument ?? '') }
}

function problemOf(
  token: Extract<Tokens[number], { kind: 'option' }>,
  options: readonly OptionSpec[],
): string | undefined {
  const option = options.find((each) => each.name === token.name)
  if (option === undefined || !token.rawName.startsWith('--')) {
    const near = nearestWord(
      token.name,
      options.map((each) => each.name),
    )
    return `there is no option ${token.rawName}${near === undefined ? '' : `; did you mean --${near}?`}`
  }
  if (option.value === null) return token.value === undefined ? undefined : `${token.rawName} takes no value`
  if (token.value === undefined || token.value === '') return `${token.rawName} needs a value: ${option.value}`
  // "--org --scope read_only": the value was forgotten.
  const isNegative = option.mayBeNegative === true && /^-[0-9]/.test(token.value)
  if (token.inlineValue === false && token.value.startsWith('-') && !isNegative) {
    return `${token.rawName} needs a value: ${option.value} (one that begins with a dash is written ${token.rawName}=${token.value})`
  }
  return undefined
}

function isRepeatable(name: string, options: readonly OptionSpec[]): boolean {
  return options.some((option) => option.name === name && option.isRepeatable === true)
}

function invocationOf(values: ReadonlyMap<string, readonly (string | true)[]>, argument: string): Invocation {
  const all = (name: string) => (values.get(name) ?? []).filter((value) => value !== true)
  const text = (name: string) => all(name)[0]
  return {
    argument,
    text,
    all,
    required: (name) => {
      const value = text(name)
      if (value === undefined) throw new Error(`the option --${name} was not required of the command line`)
      return value
    },
    flag: (name) => values.get(name)?.[0] === true,
    json: values.has('json'),
  }
}

function tokenize(argv: readonly string[], options: readonly OptionSpec[]): Tokens {
  const known = Object.fromEntries(
    options.map((option) => [option.name, { type: option.value === null ? 'boolean' : 'string' } as const]),
  )
  return parseArgs({ args: [...argv], options: known, strict: false, allowPositionals: true, tokens: true }).tokens
}

/** Options of all commands: enough to tell values from words while the command is not yet known. */
function allOptions(commands: readonly Command[]): OptionSpec[] {
  return [...commands.flatMap((command) => command.options), ...COMMON_OPTIONS]
}

function commandOf(commands: readonly Command[], words: readonly string[]): Command | undefined {
  return commands.find((command) => startsWith(words, command.words))
}

function startsWith(words: readonly string[], beginning: readonly string[]): boolean {
  return beginning.every((word, index) => words[index] === word)
}

function isHelp(rawName: string): boolean {
  return rawName === '--help' || rawName === '-h'
}
