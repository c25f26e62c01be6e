import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { COMMON_OPTIONS } from './command.ts'
import { COMMANDS } from './commands.ts'
import { helpFor } from './help.ts'
import { parseCommandLine } from './parse.ts'

const parse = (line: string) => parseCommandLine(COMMANDS, line === '' ? [] : line.split(' '))

test('values, flags and the argument arrive, in any order and in both spellings', () => {
  for (const line of [
    'keys create --org acme --scope read_only --admin --json --data-dir /data',
    '--json --data-dir=/data keys create --admin --scope=read_only --org=acme',
    'keys --org acme create --scope read_only --data-dir /data --admin --json',
  ]) {
    const parsed = parse(line)
    if (parsed.kind !== 'run') throw new Error(`not understood: ${line}`)
    const { command, invocation } = parsed
    expect(command.words).toEqual(['keys', 'create'])
    expect(['org', 'scope', 'data-dir', 'config', 'expires'].map((name) => invocation.text(name))).toEqual([
      'acme',
      'read_only',
      '/data',
      undefined,
      undefined,
    ])
    expect([invocation.flag('admin'), invocation.json]).toEqual([true, true])
  }
  expect(parse('orgs create acme')).toMatchObject({ kind: 'run', invocation: { argument: 'acme', json: false } })
  expect(parse('orgs create -- -acme')).toMatchObject({ kind: 'run', invocation: { argument: '-acme' } })
})

test.each([
  ['', []],
  ['--help', []],
  ['-h', []],
  ['help', []],
  ['keys --help', ['keys']],
  ['help keys', ['keys']],
  ['keys create --help', ['keys', 'create']],
  ['help keys create', ['keys', 'create']],
  ['keys create --org --help', ['keys', 'create']],
])('"%s" shows the help of %p', (line, topic) => {
  // "--org --help" takes the help for a value, and then says that the value is missing.
  if (line.includes('--org')) expect(parse(line)).toMatchObject({ kind: 'mistake' })
  else expect(parse(line)).toEqual({ kind: 'help', topic })
})

test.each([
  ['sevre', 'there is no command "sevre"; did you mean "serve"?'],
  ['kyes list', 'there is no command "kyes"; did you mean "keys"?'],
  ['keys lsit', 'there is no command "keys lsit"; did you mean "keys list"?'],
  ['frobnicate', 'there is no command "frobnicate"'],
  ['video list', '"video" is a command of the customer\'s command line; cli/README.md tells how to install it'],
  ['help frobnicate', 'there is no command "frobnicate"'],
  ['constructor', 'there is no command "constructor"'],
  ['keys', '"keys" needs one of: create, list, revoke'],
  ['--json', 'the command is missing before --json'],
  ['serve --prot 80', 'there is no option --prot; did you mean --port?'],
  ['serve --frobnicate', 'there is no option --frobnicate'],
  ['serve --__proto__', 'there is no option --__proto__'],
  ['serve -p 80', 'there is no option -p'],
  ['serve --org acme', 'there is no option --org'],
  ['serve --port', '--port needs a value: PORT'],
  ['serve --port=', '--port needs a value: PORT'],
  [
    'keys create --org --scope read_only',
    '--org needs a value: NAME (one that begins with a dash is written --org=--scope)',
  ],
  ['serve --port 1 --port 2', '--port is given twice'],
  ['serve --json=yes', '--json takes no value'],
  ['serve now', '"now" is one argument too many'],
  // An option that would do nothing is none.
  ['orgs list --config tollgate.yaml', 'there is no option --config'],
  ['orgs create', 'NAME is missing: its name in other commands'],
  ['orgs create acme corp', '"corp" is one argument too many'],
  [
    'keys create --org acme',
    '--scope SCOPE is missing: full_access, read_only, or a list such as serverless:write,billing:read',
  ],
])('"%s" is a mistake: %s', (line, problem) => {
  expect(parse(line)).toMatchObject({ kind: 'mistake', problem })
})

test('any command line is understood or refused, never thrown at', () => {
  const words = COMMANDS.flatMap((command) => [
    ...command.words,
    ...command.options.map((option) => `--${option.name}`),
  ])
  const word = fc.oneof(fc.constantFrom(...words, '--', '-', '--help', '='), fc.string())
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (argv) => {
      expect(['run', 'help', 'version', 'mistake']).toContain(parseCommandLine(COMMANDS, argv).kind)
    }),
  )
})

test('an option takes a value in every command or in none: words are told from values before the command is known', () => {
  const takes = new Map<string, boolean>()
  for (const option of [...COMMANDS.flatMap((command) => command.options), ...COMMON_OPTIONS]) {
    expect(takes.get(option.name) ?? option.value !== null).toBe(option.value !== null)
    takes.set(option.name, option.value !== null)
  }
})

test('every example of the help is understood', () => {
  for (const example of COMMANDS.flatMap((command) => command.examples)) {
    const argv = [...example.matchAll(/"([^"]*)"|\S+/g)].map((match) => match[1] ?? match[0]).slice(1)
    expect(parseCommandLine(COMMANDS, argv)).toMatchObject({ kind: 'run' })
  }
})

test('the help names every command and every option', () => {
  for (const command of COMMANDS) {
    expect(helpFor(COMMANDS, [])).toContain(command.words.join(' '))
    for (const option of [...command.options, ...COMMON_OPTIONS]) {
      expect(helpFor(COMMANDS, command.words)).toContain(`--${option.name}`)
    }
  }
  expect(helpFor(COMMANDS, ['keys'])).not.toContain('serve')
})
