import { columns } from '../lib/table.ts'
import { COMMON_OPTIONS, type Command, type OptionSpec } from './command.ts'

const PROGRAM = 'tollgate'

/** The help for a topic: a command, the first word of several, or nothing for all. */
export function helpFor(commands: readonly Command[], topic: readonly string[]): string {
  const command = commands.find((each) => each.words.join(' ') === topic.join(' '))
  if (command !== undefined) return helpOfCommand(command)
  const shown = commands.filter((each) => topic.every((word, index) => each.words[index] === word))
  const title = topic.length === 0 ? 'An inference gateway that bills.' : `Commands of "${topic.join(' ')}".`
  return [
    title,
    '',
    `Usage: ${PROGRAM} ${[...topic, '<command>'].join(' ')} [options]`,
    '',
    ...groupLines("For the operator, at any time, on this installation's database:", shown),
    'Every command takes:',
    optionLines(COMMON_OPTIONS),
    '',
    `"${PROGRAM} <command> --help" shows a command's own options, "${PROGRAM} --version" the version.`,
    'Exit codes: 0 done, 1 failed, 2 not understood.',
    'Customers have a command line of their own: cli/README.md.',
    '',
  ].join('\n')
}

function groupLines(heading: string, commands: readonly Command[]): string[] {
  if (commands.length === 0) return []
  const rows = commands.map(({ words, argument, summary }) => [
    `  ${[...words, ...argumentOf(argument)].join(' ')}`,
    summary,
  ])
  return [heading, columns(rows), '']
}

function helpOfCommand(command: Command): string {
  const argument = argumentOf(command.argument)
  const needed = command.options.flatMap((option) => (option.required === true ? [written(option)] : []))
  const lines = [
    `${command.summary}.`,
    '',
    `Usage: ${[PROGRAM, ...command.words, ...argument, ...needed, '[options]'].join(' ')}`,
    '',
  ]
  if (command.argument !== undefined)
    lines.push(columns([[`  ${command.argument.name}`, command.argument.summary]]), '')
  lines.push('Options:', optionLines([...command.options, ...COMMON_OPTIONS]), '')
  if (command.examples.length > 0) lines.push('Examples:', ...command.examples.map((example) => `  ${example}`), '')
  return lines.join('\n')
}

function argumentOf(argument: Command['argument']): string[] {
  if (argument === undefined) return []
  return [argument.isOptional === true ? `[${argument.name}]` : argument.name]
}

function optionLines(options: readonly OptionSpec[]): string {
  return columns(
    options.map((option) => {
      const end = option.required === true ? ' (required)' : option.preset === undefined ? '' : ` (${option.preset})`
      return [`  ${written(option)}`, `${option.summary}${end}`]
    }),
  )
}

function written(option: OptionSpec): string {
  return option.value === null ? `--${option.name}` : `--${option.name} ${option.value}`
}
