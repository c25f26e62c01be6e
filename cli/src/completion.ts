import type { CliCommand } from './command.ts'
import { UsageMistake } from './failure.ts'
import { optionsOf } from './program.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const

/** Each script asks `tollgate complete` for the words that may come next, so that it never goes out of date. */
const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  bash: `_tollgate() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(tollgate complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _tollgate tollgate
`,
  zsh: `#compdef tollgate
_tollgate() {
  local -a words_next
  words_next=("\${(@f)$(tollgate complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${#words_next[1]} )); then compadd -a words_next; else _files; fi
}
compdef _tollgate tollgate
`,
  fish: `complete -c tollgate -a '(tollgate complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

/** Makes `tollgate completion SHELL`. */
export function completionCommand(): CliCommand {
  return {
    words: ['completion'],
    summary: 'Print a script that completes commands and options in your shell',
    argument: { name: 'SHELL', summary: SHELLS.join(', ') },
    options: [],
    isLocal: true,
    examples: ['source <(tollgate completion bash)', 'tollgate completion fish | source'],
    run: async (args) => {
      const shell = SHELLS.find((each) => each === args.argument)
      if (shell === undefined)
        throw new UsageMistake(`there is no script for "${args.argument}": use ${SHELLS.join(', ')}`)
      return { json: { shell, script: SCRIPTS[shell] }, text: SCRIPTS[shell] }
    },
  }
}

/** Makes `tollgate complete -- WORDS`, which the scripts call: the words that may come next, a line each. */
export function completeCommand(commands: () => readonly CliCommand[]): CliCommand {
  return {
    words: ['complete'],
    summary: 'Print the words that may come next',
    argument: {
      name: 'WORDS',
      summary: 'the words so far, the last of which is being typed',
      isOptional: true,
      isMany: true,
    },
    options: [],
    isLocal: true,
    isHidden: true,
    examples: [],
    run: async ({ words }) => {
      const next = nextWords(commands(), words)
      return { json: next, text: next.map((word) => `${word}\n`).join('') }
    },
  }
}

/** Returns the words that may stand where the last of `typed` is being typed, in the order of the help. */
function nextWords(commands: readonly CliCommand[], typed: readonly string[]): string[] {
  const before = typed.slice(0, -1)
  const start = typed.at(-1) ?? ''
  const shown = commands.filter(({ isHidden }) => isHidden !== true)
  const words = before.filter((word) => !word.startsWith('-'))
  const under = shown.filter((command) => command.words.length > words.length && isPrefix(words, command.words))
  const names = under.map((command) => command.words[words.length] ?? '')
  const options = choicesOf(shown, words, before.at(-1)) ?? optionNames(shown, words)
  return [...new Set([...names, ...options])].filter((word) => word.startsWith(start))
}

function commandOf(commands: readonly CliCommand[], words: readonly string[]): CliCommand | undefined {
  const matching = commands.filter((command) => isPrefix(command.words, words))
  return matching.sort((a, b) => b.words.length - a.words.length)[0]
}

function optionNames(commands: readonly CliCommand[], words: readonly string[]): string[] {
  const command = commandOf(commands, words)
  return command === undefined ? [] : [...optionsOf(command).map(({ name }) => `--${name}`), '--help']
}

/** The words that an option takes, when the word before is one; null when it is not. */
function choicesOf(
  commands: readonly CliCommand[],
  words: readonly string[],
  last: string | undefined,
): readonly string[] | null {
  const command = commandOf(commands, words)
  const option = command?.options.find(({ name }) => `--${name}` === last)
  return option === undefined || option.value === null ? null : (option.choices ?? [])
}

function isPrefix(start: readonly string[], words: readonly string[]): boolean {
  return start.every((word, index) => words[index] === word)
}
