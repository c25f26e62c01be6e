import type { PaymentSettings } from '../../catalog/settings.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import { countUnderWay } from './store.ts'

interface UnservedDependencies {
  readonly database: Queryable
  readonly log: Log
}

const FOUND = 'subscriptions, auto-pay or payments are under way at a payment provider'
const LOST = 'nobody can pay or cancel a subscription, auto-pay pays nothing, and payments under way are not credited'
const ADVICE = 'Put the section back, with the payment provider that they are at, until they have ended'

/** Reports what is under way at a payment provider that a server does not have at its start. */
export function reportUnserved(dependencies: UnservedDependencies, settings: PaymentSettings | null): Promise<void> {
  if (settings === null) {
    const message = `${FOUND}, and the settings have no section 'payments': ${LOST}. ${ADVICE}, and start again`
    return report(dependencies, message)
  }
  const { name } = settings.provider
  return report(
    dependencies,
    `${FOUND}, and the settings name another one, '${name}': nobody can cancel those subscriptions, that auto-pay pays nothing, and those payments are not credited. Name the former provider until they have ended, or begin with a new data directory`,
    name,
  )
}

/**
 * Returns the function that reports it when a changed settings file has no such section any more. The payments of the server's start,
 * `inForce`, go on until it is started again.
 */
export function reportLeavingPayments(dependencies: UnservedDependencies, inForce: PaymentSettings | null) {
  return (changed: PaymentSettings | null): void => {
    if (inForce === null || changed !== null) return
    report(
      dependencies,
      `${FOUND}, and the changed settings file has no section 'payments': from the next start on ${LOST}. ${ADVICE}`,
    ).catch((error: unknown) => {
      dependencies.log.warn({ err: error }, 'payments: it could not be read whether any are under way')
    })
  }
}

async function report(
  { database, log }: UnservedDependencies,
  message: string,
  served: string | null = null,
): Promise<void> {
  const { subscriptions, autoPay, payments } = await countUnderWay(database, served)
  if (subscriptions + autoPay + payments > 0) log.error({ subscriptions, auto_pay: autoPay, payments }, message)
}
