/** The two commands named `tollgate`: each knows the words of the other, and says whose they are. */

import { expect, test } from 'bun:test'
import { COMMANDS } from '../../server/src/commands/commands.ts'
import { parseCommandLine } from '../../server/src/commands/parse.ts'
import { CLI_COMMANDS } from '../src/commands.ts'
import { readLine } from '../src/program.ts'

const wordsOf = (commands: readonly { readonly words: readonly string[]; readonly isHidden?: boolean }[]) =>
  new Set(commands.filter(({ isHidden }) => isHidden !== true).map(({ words }) => words[0] ?? ''))
const [operators, customers] = [wordsOf(COMMANDS), wordsOf(CLI_COMMANDS)]

test.each([...customers.difference(operators)])("the operator's command says that %s is a customer's", (word) => {
  const read = parseCommandLine(COMMANDS, [word, 'x'])
  expect(read).toMatchObject({ problem: expect.stringContaining(`"${word}" is a command of the customer's`) })
})

test.each([...operators.difference(customers)])("the customers' command says that %s is an operator's", (word) => {
  const read = readLine(CLI_COMMANDS, [word, 'x'])
  expect(read).toMatchObject({ problem: expect.stringContaining(`"${word}" is a command of the operators`) })
})
