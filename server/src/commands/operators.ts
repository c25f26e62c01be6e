import { listOperators, setOperator } from '../identity/accounts/people/operators.ts'
import type { Person } from '../identity/accounts/people/person.ts'
import { table } from '../lib/table.ts'
import { type Command, DATA_DIR_OPTION, type Invocation } from './command.ts'
import type { CommandContext } from './context.ts'
import { orThrow, withDatabase } from './environment.ts'

const EMAIL = { name: 'EMAIL', summary: "the person's mail address" }

const NOBODY = 'Nobody is an operator: make somebody one with "tollgate operators add EMAIL".'

/** `tollgate operators list` */
export const listOperatorsCommand: Command = {
  words: ['operators', 'list'],
  summary: 'List the people who are operators',
  options: [DATA_DIR_OPTION],
  examples: ['tollgate operators list'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database) => {
      const operators = await listOperators(database)
      return {
        json: operators.map(toJson),
        text: table(
          ['EMAIL', 'NAME'],
          operators.map(({ email, name }) => [email, name]),
          NOBODY,
          context.stdoutColumns,
        ),
      }
    }),
}

/** `tollgate operators add EMAIL` */
export const addOperatorCommand: Command = {
  words: ['operators', 'add'],
  summary: 'Make a person an operator, who may use the routes for operators when signed in',
  argument: EMAIL,
  options: [DATA_DIR_OPTION],
  examples: ['tollgate operators add ada@example.com'],
  run: (invocation, context) => change(invocation, context, true),
}

/** `tollgate operators remove EMAIL` */
export const removeOperatorCommand: Command = {
  words: ['operators', 'remove'],
  summary: 'Make a person an operator no longer, from the next request on',
  argument: EMAIL,
  options: [DATA_DIR_OPTION],
  examples: ['tollgate operators remove ada@example.com'],
  run: (invocation, context) => change(invocation, context, false),
}

const NOBODY_LEFT = `That was the last one. ${NOBODY}\n`

function change(invocation: Invocation, context: CommandContext, isOperator: boolean) {
  return withDatabase(invocation, context, async (database, clock) => {
    const { randomBytes: random } = context
    const person = orThrow(await setOperator({ database, clock, random }, invocation.argument, isOperator))
    const isAnyLeft = isOperator || (await listOperators(database)).length > 0
    return {
      json: toJson(person),
      text: `${person.email} is ${isOperator ? 'an operator' : 'no operator'} now.\n${isAnyLeft ? '' : NOBODY_LEFT}`,
    }
  })
}

function toJson({ id, name, email, isOperator }: Person) {
  return { id, name, email, operator: isOperator }
}
