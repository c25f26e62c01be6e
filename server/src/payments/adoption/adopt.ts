import { isUuid } from '../../lib/ids.ts'
import type { ListedCheckout } from '../provider/reversal.ts'
import { type RefreshDependencies, type Refreshed, refreshPayment } from '../topUps/refresh.ts'
import { insertAdopted, insertAdoptedCustomer } from './store.ts'

/**
 * Retrieves the payment of a checkout that the payment provider has, and takes it over where it is not known here: after a backup was
 * restored, whose database was older than the payment. `unknown`: the checkout is none of this installation's.
 */
export async function adoptCheckout(dependencies: RefreshDependencies, listed: ListedCheckout): Promise<Refreshed> {
  const { database, provider, clock } = dependencies
  const known = await refreshPayment(dependencies, { checkout: listed.checkout })
  if (known !== 'unknown') return known
  const { id, organizationId } = listed
  if (id === null || organizationId === null || !isUuid(id) || !isUuid(organizationId)) return 'unknown'
  if (!(await adoptCustomer(dependencies, listed))) return 'unknown'
  if (!(await insertAdopted(database, provider.name, { ...listed, id, organizationId }, clock.now()))) return 'unknown'
  return refreshPayment(dependencies, { checkout: listed.checkout })
}

/**
 * Notes the customer of a checkout for its organization, where that has none here. False: there is no such organization.
 */
export function adoptCustomer(
  { database, provider, clock }: Pick<RefreshDependencies, 'database' | 'provider' | 'clock'>,
  { organizationId, customer }: Pick<ListedCheckout, 'organizationId' | 'customer'>,
): Promise<boolean> {
  if (organizationId === null || !isUuid(organizationId)) return Promise.resolve(false)
  return insertAdoptedCustomer(database, organizationId, provider.name, customer, clock.now())
}
