import { createLog } from '../infra/log.ts'
import { openPaymentTools } from '../payments/open.ts'
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
    // With --json stderr holds errors and notices, as objects, and nothing else.
    const log = createLog('warn', { write: (line) => (invocation.json ? undefined : context.stderr(line)) })
    const { randomBytes: random } = context
    const tools = await openPaymentTools({ database, clock, random, log, config, catalog: () => config.settings })
    if (tools === null) {
      throw new CommandFailure('the settings have no payments: name a payment provider in the section "payments"')
    }
    return await work(tools)
  })
}
