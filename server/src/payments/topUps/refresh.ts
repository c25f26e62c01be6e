import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import { type CheckoutFacts, nextLookMs, type Payment } from '../provider/payment.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { applyCheckout } from './apply.ts'
import { hasCallback, insertCallback, leasePayment, lockLeased, markNotOpened, selectCustomer } from './store.ts'

export interface RefreshDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly provider: PaymentProvider
  readonly log?: Log
  /** Called in the transaction that applies a payment with which a payment method was saved. */
  readonly onMethodSaved?: (tx: Transaction, organizationId: string) => Promise<void>
}

/**
 * The outcome of a look. `applied`: the retrieved payment counts now; `superseded`: another retrieval was begun
 * meanwhile, whose result counts; `unknown`: the object is none of ours.
 */
export type Refreshed = 'applied' | 'superseded' | 'unknown'

const LATE = 'a payment of a deleted organization was made all the same, and is credited to it; refund it'

/** Why a payment failed whose checkout nobody ever got the address of. */
export const NOT_OPENED = 'The checkout could not be opened; nothing was paid. Ask for a new one.'

/**
 * Retrieves the checkout of a payment and applies what it says. Nobody's word counts but the payment provider's: a callback only
 * says what to look at. `event` is the payment provider's id of the callback that told of it: it is stored with its effect, and told again it
 * does nothing. Throws `Refused` where the payment provider can't be asked; the payment stays due then.
 */
export async function refreshPayment(
  dependencies: RefreshDependencies,
  by: { readonly id: string } | { readonly checkout: string },
  event: string | null = null,
): Promise<Refreshed> {
  const { database, clock, random, provider } = dependencies
  if (event !== null && (await hasCallback(database, provider.name, event))) return 'applied'
  const lease = uuidV7(clock.now(), random)
  const payment = await leasePayment(database, provider.name, by, lease, nextLookMs(clock.now(), clock.now()))
  if (payment === null) return 'unknown'
  if (payment.checkout === null) {
    await markNotOpened(database, payment.id, NOT_OPENED)
    return 'applied'
  }
  if (payment.isReplaced) await provider.expireCheckout(payment.checkout)
  const facts = await provider.retrieveCheckout(payment.checkout)
  // Nothing is paid by it any more where the organization is deleted.
  const isSaved = !payment.isForDeleted && (await saveMethod(dependencies, payment, facts))
  const nowMs = clock.now()
  const refreshed = await database.transaction(async (tx): Promise<Refreshed> => {
    if (!(await lockLeased(tx, payment.id, lease))) return 'superseded'
    if (event !== null) await insertCallback(tx, provider.name, event, nowMs)
    await applyCheckout(tx, random, payment, facts, nowMs)
    if (isSaved) await dependencies.onMethodSaved?.(tx, payment.organizationId)
    return 'applied'
  })
  if (payment.isForDeleted && facts.state === 'paid' && payment.state !== 'paid')
    dependencies.log?.warn({ organizationId: payment.organizationId, payment: payment.id }, LATE)
  return refreshed
}

/**
 * Makes the payment method with which a payment was just paid the one for later payments, if the customer agreed. Returns whether
 * that is so. Throws `Refused` where the payment provider can't be asked: the payment is retrieved again then.
 */
async function saveMethod(
  { database, provider }: RefreshDependencies,
  { organizationId, state }: Payment,
  facts: CheckoutFacts,
): Promise<boolean> {
  // One that was applied before must not take the place of a payment method that was saved since.
  if (facts.state !== 'paid' || facts.savedMethod === null || state === 'paid') return false
  const customer = await selectCustomer(database, organizationId, provider.name)
  if (customer === null) return false
  return provider.saveMethod(customer, facts.savedMethod)
}
