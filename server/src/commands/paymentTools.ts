import type { Config } from '../config/config.ts'
import { createLog } from '../infra/log.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { openPaymentTools } from '../payments/open.ts'
import { hasOtherCustomers } from '../payments/unserved/store.ts'
import { CommandFailure, type Invocation } from './command.ts'
import type { CommandContext } from './context.ts'
import { configOf, withDatabase } from './environment.ts'

export type PaymentTools = NonNullable<Awaited<ReturnType<typeof openPaymentTools>>>

/** Opens the payment provider of the settings and the database, and gives them back whatever happens. */
export async function withPayments<T>(
  invocation: Invocation,
  context: CommandContext,
  work: (tools: PaymentTools) => Promise<T>,
): Promise<T> {
  const config = await configOf(invocation, context)
  return await withDatabase(invocation, context, async (database, clock) => {
    await refuseTestPayments(config, database)
    // With --json stderr holds errors and notices, as objects, and nothing else.
    const log = createLog('warn', { write: (line) => (invocation.json ? undefined : context.stderr(line)) })
    const { randomBytes: random } = context
    const tools = await openPaymentTools({ database, clock, random, log, config, catalog: () => config.settings })
    if (tools === null) {
      throw new CommandFailure(
        config.source === null
          ? `there is no settings file ${config.settingsPath}, so no payment provider is known: ${NAME_THE_FILE}`
          : 'the settings have no payments: name a payment provider in the section "payments"',
      )
    }
    return await work(tools)
  })
}

const NAME_THE_FILE = 'name the one of your server with --config or TOLLGATE_CONFIG'

/**
 * Refuses the local payment provider, which is on where there is no settings file, for a database whose organizations pay at another one:
 * the file is missing, and test cards would give real credit. @throws CommandFailure.
 */
export async function refuseTestPayments({ source, settings, settingsPath }: Config, db: Queryable): Promise<void> {
  const local = settings.fixed.payments?.provider.name
  if (source !== null || local === undefined || !(await hasOtherCustomers(db, local))) return
  throw new CommandFailure(
    `there is no settings file ${settingsPath}, and organizations of this database pay at another payment provider than ` +
      `the one for tests: ${NAME_THE_FILE}`,
  )
}
