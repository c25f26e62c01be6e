import type { Database, Queryable, Transaction } from '../../infra/postgres/database.ts'
import { refuse } from '../../lib/errors.ts'
import { endAutoPay } from '../autoPay/end.ts'
import { expireDepositsOf } from '../deposits/deposit/expire.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { ENDED_STATUSES } from '../provider/subscriptionFacts.ts'
import {
  closeCheckouts,
  closeSubscriptionCheckouts,
  eraseLinksOf,
  hastenSubscriptions,
  lockCustomers,
  selectLiveSubscriptions,
} from './store.ts'

const CLOSED = 'The organization was deleted.'

/**
 * Closes the ways in which an organization could pay, in the transaction that deletes it: its deposits expire, its checkouts are to
 * be ended at the payment provider, and its subscriptions cancelled there. The sweep of payments does both, and tries again until
 * they are done. Returns how many subscriptions there are. Throws the refusal (`validation_failed`) where one is at another payment
 * provider than that of the settings, `provider`, so that nobody could cancel it; null: the settings have none.
 */
export async function closePayments(
  tx: Transaction,
  organizationId: string,
  provider: PaymentProviderName | null,
  nowMs: number,
): Promise<number> {
  await lockCustomers(tx, organizationId)
  await closeCheckouts(tx, organizationId, CLOSED, nowMs)
  await closeSubscriptionCheckouts(tx, organizationId, nowMs)
  await expireDepositsOf(tx, organizationId, nowMs)
  const live = await selectLiveSubscriptions(tx, organizationId, ENDED_STATUSES)
  const foreign = live.find((each) => each.provider !== provider)
  if (foreign !== undefined) refuseUncancellable(foreign.provider)
  await hastenSubscriptions(tx, organizationId, nowMs)
  return live.length
}

/** Closes checkouts and deposits that were begun while the organization was deleted. */
export function closeLateCheckouts(database: Database, organizationId: string, nowMs: number): Promise<void> {
  return database.transaction(async (tx) => {
    await lockCustomers(tx, organizationId)
    await closeCheckouts(tx, organizationId, CLOSED, nowMs)
    await closeSubscriptionCheckouts(tx, organizationId, nowMs)
    await expireDepositsOf(tx, organizationId, nowMs)
  })
}

function refuseUncancellable(provider: PaymentProviderName): never {
  return refuse(
    'validation_failed',
    `The organization has a subscription at the payment provider "${provider}", which can't be cancelled from here: the settings do not name this payment provider. Nothing was deleted. Name it in the section "payments" of the settings, then delete the organization.`,
  )
}

/** Switches auto-pay off, in the same transaction, after {@link closePayments} and before anything else locks the account. */
export function closeAutoPay(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  return endAutoPay(tx, organizationId, nowMs)
}

/** Erases the links of an organization's payments: to checkouts, and to receipts, which name who has paid. */
export function erasePaymentLinks(database: Queryable, organizationId: string): Promise<void> {
  return eraseLinksOf(database, organizationId)
}
