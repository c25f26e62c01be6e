import { type Command, DATA_DIR_OPTION } from './command.ts'
import { withDatabase } from './environment.ts'

/** `tollgate migrate` */
export const migrateCommand: Command = {
  words: ['migrate'],
  summary: 'Bring the database schema up to date',
  options: [DATA_DIR_OPTION],
  examples: ['tollgate migrate'],
  run: (invocation, context) =>
    withDatabase(
      invocation,
      context,
      async (_, __, applied) => ({
        json: { applied },
        text: `${applied.map((name) => `Applied ${name}.\n`).join('')}The database schema is up to date.\n`,
      }),
      { patient: true },
    ),
}
