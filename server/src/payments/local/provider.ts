/** The local payment provider: it stands in for a real one, keeps its objects in the database, and moves no money. */

import type { Queryable } from '../../infra/postgres/database.ts'
import { isUuid, toHex } from '../../lib/ids.ts'
import { DAY_MS } from '../../lib/time.ts'
import type { CheckoutFacts } from '../provider/payment.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { at, choose, type LocalCheckout, type LocalChoice, type LocalProblem } from './checkout.ts'
import type { LocalProviderDependencies } from './dependencies.ts'
import { createLocalOffSession } from './offSession.ts'
import {
  LOCAL_AUTO_PAYMENT,
  LOCAL_PAYMENT,
  type LocalAutoPayment,
  type LocalPayment,
  type LocalReceipt,
  receiptOfAutoPayment,
} from './payment.ts'
import { type LocalReversals, localReversals } from './reversals.ts'
import {
  insertLocalObject,
  lockLocalObject,
  selectLocalObject,
  selectLocalObjectsOf,
  updateLocalObject,
} from './store.ts'
import {
  type LocalPortal,
  type LocalSubscription,
  localPrice,
  localPriceInWords,
  subscribe,
  subscriptionAt,
} from './subscription.ts'

/** As long as Stripe's. */
const CHECKOUT_LASTS_MS = DAY_MS

/** The first letters of ids. */
const CHECKOUT = 'lcs_'
const SUBSCRIPTION = 'lsu_'
const PORTAL = 'lpo_'

/**
 * Returns whether a text is an id as they are made here. Addresses of pages hold others, such as ones with a character that no
 * database takes.
 */
function isIdOf(prefix: string, text: string): boolean {
  return text.startsWith(prefix) && /^[0-9a-f]{32}$/.test(text.slice(prefix.length))
}

/** The data of a customer's page. */
export interface LocalPortalView extends LocalPortal {
  readonly subscriptions: readonly (LocalSubscription & { readonly id: string })[]
}

export interface LocalProvider extends PaymentProvider, LocalReversals {
  /** Returns a checkout for its page; null where there is none of this id. */
  show(id: string): Promise<LocalCheckout | null>
  /** Carries out the choice of a person. Null: there is no checkout of this id. */
  choose(id: string, choice: LocalChoice): Promise<{ checkout: LocalCheckout; problem: LocalProblem | null } | null>
  /** Returns a payment for the page of its receipt; null where there is none of this id. */
  showReceipt(payment: string): Promise<LocalReceipt | null>
  /** Returns a portal for its page; null where there is none of this id. */
  showPortal(id: string): Promise<LocalPortalView | null>
  /** Has a subscription end with its period, or go on after all. */
  setCancelled(subscription: string, cancelAtPeriodEnd: boolean): Promise<void>
}

export function createLocalProvider(dependencies: LocalProviderDependencies): LocalProvider {
  const { database, clock, random, pageUrl } = dependencies
  const newId = (prefix: string) => `${prefix}${toHex(random(16))}`
  const receiptUrl = (payment: string) => pageUrl(`/receipts/${payment}`)
  const readCheckout = async (id: string) => {
    if (!isIdOf(CHECKOUT, id)) return null
    const found = await selectLocalObject<LocalCheckout>(database, id)
    return found && at(found, clock.now())
  }
  const knownCheckout = async (id: string) => {
    const found = await readCheckout(id)
    if (found === null) throw new Error(`the local payment provider has no checkout ${id}`)
    return found
  }
  const open = async (checkout: Omit<LocalCheckout, keyof typeof NEW_CHECKOUT | 'createdAtMs' | 'expiresAtMs'>) => {
    const id = newId(CHECKOUT)
    const createdAtMs = clock.now()
    const made: LocalCheckout = {
      ...checkout,
      ...NEW_CHECKOUT,
      createdAtMs,
      expiresAtMs: createdAtMs + CHECKOUT_LASTS_MS,
    }
    await insertLocalObject(database, id, made, clock.now())
    return { id, url: pageUrl(`/checkouts/${id}`) }
  }
  return {
    name: 'local',
    createCustomer: async (organizationId) => `lcu_${organizationId.replaceAll('-', '')}`,
    ...createLocalOffSession({ database, clock, receiptUrl }),
    openCheckout: ({ paymentId: id, savesMethod: savesCard, customer, amountCents, description, ...urls }) =>
      open({ id, customer, amountCents, description, offersSaving: savesCard, savesCard, ...urls, price: null }),
    async openSubscriptionCheckout({ id, customer, price, successUrl, cancelUrl }) {
      const found = localPrice(price)
      if (found === null)
        throw new Error(`${price} is no price of the local payment provider, such as local_2000_month`)
      const { amountCents } = found
      const description = `Subscription: ${localPriceInWords(found)}`
      return open({ id, customer, amountCents, description, savesCard: false, successUrl, cancelUrl, price })
    },
    async expireCheckout(id) {
      await change<LocalCheckout>(dependencies, id, (found) =>
        found.state === 'paid' ? found : { ...found, state: 'expired' },
      )
    },
    retrieveCheckout: async (id) => factsOf(await knownCheckout(id), receiptUrl),
    async retrieveSubscriptionCheckout(id) {
      const { state, payment } = await knownCheckout(id)
      if (state === 'paid' && payment !== null) return { state: 'complete', subscription: payment }
      return { state: state === 'expired' ? state : 'open' }
    },
    readPrice: async (price) => localPrice(price),
    show: readCheckout,
    choose: async (id, choice) => (isIdOf(CHECKOUT, id) ? chooseIn(dependencies, id, choice, newId) : null),
    showReceipt: (id) => readReceipt(database, id),
    ...localReversals(dependencies, newId),
    ...subscriptionsOf(dependencies, newId),
  }
}

/** Returns the receipt of a payment, at a checkout or by a saved card; null where nothing was paid by this id. */
async function readReceipt(database: Queryable, id: string): Promise<LocalReceipt | null> {
  if (isIdOf(LOCAL_PAYMENT, id)) return selectLocalObject<LocalPayment>(database, id)
  if (!id.startsWith(LOCAL_AUTO_PAYMENT) || !isUuid(id.slice(LOCAL_AUTO_PAYMENT.length))) return null
  const found = await selectLocalObject<LocalAutoPayment>(database, id)
  return found === null ? null : receiptOfAutoPayment(found)
}

const NEW_CHECKOUT = { state: 'open', payment: null, card: null } as const

type SubscriptionMethods = Pick<
  LocalProvider,
  'retrieveSubscription' | 'refundSubscription' | 'openPortal' | 'showPortal' | 'setCancelled'
>

/** The part of the provider that is about subscriptions which were begun. */
function subscriptionsOf(
  dependencies: LocalProviderDependencies,
  newId: (prefix: string) => string,
): SubscriptionMethods {
  const { database, clock, pageUrl } = dependencies
  const readSubscription = async (id: string) => {
    const found = await selectLocalObject<LocalSubscription>(database, id)
    if (found === null) throw new Error(`the local payment provider has no subscription ${id}`)
    return subscriptionAt(found, clock.now())
  }
  return {
    async retrieveSubscription(subscription) {
      return { subscription, isPaid: true, unpaid: null, ...(await readSubscription(subscription)) }
    },
    // Nothing is paid for a local subscription, as far as anybody can see.
    refundSubscription: async () => true,
    async openPortal(customer, returnUrl) {
      const id = newId(PORTAL)
      const portal: LocalPortal = { customer, returnUrl }
      await insertLocalObject(database, id, portal, clock.now())
      return pageUrl(`/portals/${id}`)
    },
    async showPortal(id) {
      if (!isIdOf(PORTAL, id)) return null
      const portal = await selectLocalObject<LocalPortal>(database, id)
      if (portal === null) return null
      const rows = await selectLocalObjectsOf<LocalSubscription>(database, portal.customer, SUBSCRIPTION)
      const subscriptions = rows.map(({ id, body }) => ({ id, ...subscriptionAt(body, clock.now()) }))
      return { ...portal, subscriptions }
    },
    async setCancelled(id, cancelAtPeriodEnd) {
      await change<LocalSubscription>(dependencies, id, (found) => ({
        ...subscriptionAt(found, clock.now()),
        cancelAtPeriodEnd,
      }))
    },
  }
}

/** Changes an object while it is locked. Does nothing where there is none of this id. */
function change<T extends object>(
  { database, clock }: LocalProviderDependencies,
  id: string,
  turn: (found: T) => T,
): Promise<void> {
  return database.transaction(async (tx) => {
    const found = await lockLocalObject<T>(tx, id)
    if (found !== null) await updateLocalObject(tx, id, turn(found), clock.now())
  })
}

/** Carries out a choice in one transaction. A checkout for a subscription that is paid begins the subscription. */
function chooseIn(
  { database, clock }: LocalProviderDependencies,
  id: string,
  choice: LocalChoice,
  newId: (prefix: string) => string,
) {
  return database.transaction(async (tx) => {
    const found = await lockLocalObject<LocalCheckout>(tx, id)
    if (found === null) return null
    const nowMs = clock.now()
    const { price } = found
    const payment = newId(price === null ? LOCAL_PAYMENT : SUBSCRIPTION)
    const chosen = choose(at(found, nowMs), choice, payment)
    await updateLocalObject(tx, id, chosen.checkout, nowMs)
    const isNew = found.state !== 'paid' && chosen.checkout.state === 'paid'
    if (isNew) await insertLocalObject(tx, payment, paidObject(found, id, nowMs), nowMs)
    return chosen
  })
}

/** The subscription that a paid checkout begins, or its payment of credit. */
function paidObject({ customer, price, amountCents, description }: LocalCheckout, checkout: string, nowMs: number) {
  if (price !== null) return subscribe(customer, price, nowMs)
  const paid: LocalPayment = { customer, amountCents, description, checkout, paidAtMs: nowMs }
  return paid
}

function factsOf(
  { state, payment, amountCents, savesCard, card }: LocalCheckout,
  receiptUrl: (payment: string) => string,
): CheckoutFacts {
  if (state === 'expired') return { state, reason: 'The checkout was not paid in time, or a newer one replaced it.' }
  if (state !== 'paid' || payment === null) return { state: 'open' }
  const savedMethod = savesCard ? card : null
  return { state, payment, amountCents, grossCents: amountCents, receiptUrl: receiptUrl(payment), savedMethod }
}
