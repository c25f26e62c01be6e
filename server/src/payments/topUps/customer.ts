import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { type Clock, HOUR_MS } from '../../lib/time.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { OPENED_AN_HOUR, refuseTooMany } from './hourly.ts'
import {
  insertCustomer,
  lockCustomer,
  selectCustomer,
  selectOrganization,
  selectPortals,
  updatePortals,
} from './store.ts'

/** Returns the payment provider's id of an organization, and makes the customer there where it has none. */
export async function customerOf(
  { database, clock, provider }: { database: Queryable; clock: Clock; provider: PaymentProvider },
  organizationId: string,
): Promise<string> {
  const known = await selectCustomer(database, organizationId, provider.name)
  if (known !== null) return known
  const customer = await provider.createCustomer(organizationId)
  await insertCustomer(database, organizationId, provider.name, customer, clock.now())
  return customer
}

/** Returns the payment provider's id of an organization; null where it has none. */
export function findCustomer(
  database: Queryable,
  organizationId: string,
  provider: PaymentProviderName,
): Promise<string | null> {
  return selectCustomer(database, organizationId, provider)
}

/** Returns the organization of a customer at the payment provider; null where it is none of ours. */
export function organizationOf(
  database: Queryable,
  provider: PaymentProviderName,
  customer: string,
): Promise<string | null> {
  return selectOrganization(database, provider, customer)
}

/** Locks the customer of an organization until the end of the transaction: what is decided on all that it has goes in turn. */
export function lockCustomerOf(tx: Transaction, organizationId: string, provider: PaymentProviderName): Promise<void> {
  return lockCustomer(tx, organizationId, provider)
}

interface PortalDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

/** Notes that a customer is about to open the billing portal. Throws `Refused` (`rate_limited`) after 30 within an hour. */
export async function notePortal(
  { database, clock }: PortalDependencies,
  organizationId: string,
  provider: PaymentProviderName,
): Promise<void> {
  const nowMs = clock.now()
  const bounds = { nowMs, afterMs: nowMs - HOUR_MS, most: OPENED_AN_HOUR }
  if (await updatePortals(database, organizationId, provider, bounds)) return
  refuseTooMany(await selectPortals(database, organizationId, provider), nowMs, 'billing portals')
}

/** Throws `Refused` (`rate_limited`) where an organization has opened as many portals as it may within an hour. Nobody is asked for that. */
export async function refusePortalFirst(
  { database, clock }: PortalDependencies,
  organizationId: string,
  provider: PaymentProviderName,
): Promise<void> {
  const nowMs = clock.now()
  const openedMs = await selectPortals(database, organizationId, provider)
  const recentMs = openedMs.filter((atMs) => atMs > nowMs - HOUR_MS)
  refuseTooMany(recentMs, nowMs, 'billing portals')
}
