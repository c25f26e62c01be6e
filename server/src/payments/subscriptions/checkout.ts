import { entitledPlan } from '../../billing/plans/cover.ts'
import { readSubscription } from '../../billing/plans/readPlan.ts'
import { type Plan, type PlanPrice, planOnOffer } from '../../catalog/plan.ts'
import { NO_ORGANIZATION } from '../../http/principal.ts'
import type { Participant } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { Refused, refuse } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { refuseFrozen } from '../freezes/freezes.ts'
import { nextLookMs, OPENING_MS } from '../provider/payment.ts'
import type { OpenedCheckout } from '../provider/provider.ts'
import { UnreadableObject } from '../provider/unreadable.ts'
import { customerOf, lockCustomerOf } from '../topUps/customer.ts'
import { anHourAgo, refuseTooMany } from '../topUps/hourly.ts'
import { NOT_OPENED, type Refreshed } from '../topUps/refresh.ts'
import type { ReadPrice } from './prices.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from './refresh.ts'
import {
  insertSubscriptionCheckout,
  markSubscriptionCheckoutNotOpened,
  markSubscriptionCheckoutsReplaced,
  selectOpenSubscriptionCheckouts,
  selectSubscriptionCheckout,
  selectSubscriptionCheckoutsAfter,
  updateSubscriptionCheckout,
  updateSubscriptionCheckoutOpened,
} from './store.ts'

export interface NewSubscriptionCheckout {
  readonly organizationId: string
  /** Null: the first plan that has a price. */
  readonly planKey: string | null
  readonly successUrl: string
  readonly cancelUrl: string
  /** Keeps the answer, in the transaction that notes the checkout. */
  readonly keep: (opened: OpenedPlanCheckout) => Promise<readonly Participant[]>
}

export interface PlanCheckoutDependencies extends SubscriptionRefreshDependencies {
  readonly readPrice: ReadPrice
}

/** A checkout for a plan. The price is null where it is not known now. */
export interface OpenedPlanCheckout {
  /** Ours. */
  readonly id: string
  readonly checkout: OpenedCheckout
  readonly plan: Plan
  readonly price: PlanPrice | null
}

/**
 * Opens a checkout where a person may subscribe. Nobody is subscribed by it. An older open one of the organization is expired (B9).
 * Throws `Refused`: `validation-error` (no such plan), `subscription-exists`, `payment-source-unavailable`,
 * `org-frozen` (B11), `rate_limited` (30 within an hour), `not_found` (an organization that is deleted).
 */
export async function openSubscriptionCheckout(
  dependencies: PlanCheckoutDependencies,
  wanted: NewSubscriptionCheckout,
): Promise<OpenedPlanCheckout> {
  const { database, clock, random, provider, log } = dependencies
  const { organizationId, successUrl, cancelUrl } = wanted
  await refuseFrozen(database, organizationId)
  const { plan, price: priceId } = planOf(dependencies.plans(), wanted.planKey)
  // One that was paid, and that nobody told of, must not be paid once more.
  for (const id of await selectOpenSubscriptionCheckouts(database, organizationId, provider.name)) {
    await refreshSubscriptionCheckout(dependencies, { id })
  }
  await refuseSubscribed(dependencies, organizationId)
  const nowMs = clock.now()
  const customer = await customerOf(dependencies, organizationId)
  const id = uuidV7(nowMs, random)
  await database.transaction(async (tx) => {
    await lockCustomerOf(tx, organizationId, provider.name)
    refuseTooMany(await selectSubscriptionCheckoutsAfter(tx, organizationId, anHourAgo(nowMs)), nowMs)
    const row = { id, organizationId, provider: provider.name }
    if (!(await insertSubscriptionCheckout(tx, row, nowMs, nowMs + OPENING_MS))) throw new Refused(NO_ORGANIZATION)
  }, organizationId)
  const checkout = await provider
    .openSubscriptionCheckout({ id, customer, price: priceId, successUrl, cancelUrl })
    .catch(async (error: unknown) => {
      await markSubscriptionCheckoutNotOpened(database, id)
      if (error instanceof UnreadableObject) await refuseGonePrice(dependencies, plan, priceId)
      throw error
    })
  const opened = { id, checkout, plan, price: await dependencies.readPrice(plan) }
  const replaced = await database.transaction(async (tx) => {
    await lockCustomerOf(tx, organizationId, provider.name)
    const isOpen = await updateSubscriptionCheckoutOpened(tx, id, checkout.id, nextLookMs(nowMs, clock.now()))
    if (!isOpen) return refuse('payment-source-unavailable', NOT_OPENED)
    await joinAll(tx, await wanted.keep(opened))
    return markSubscriptionCheckoutsReplaced(tx, organizationId, provider.name, id, clock.now())
  }, organizationId)
  for (const older of replaced) {
    await refreshSubscriptionCheckout(dependencies, { id: older }).catch((error: unknown) =>
      log.warn({ err: error, checkout: older }, 'a replaced checkout could not be expired; it is tried again'),
    )
  }
  return opened
}

/**
 * Throws `Refused` (`rate_limited`) where an organization has opened as many checkouts for plans as it may within an hour. Nobody is asked
 * for that. `openSubscriptionCheckout` looks again, in the transaction that begins the checkout.
 */
export async function refuseCheckoutFirst(
  { database, clock }: Pick<PlanCheckoutDependencies, 'database' | 'clock'>,
  organizationId: string,
): Promise<void> {
  const nowMs = clock.now()
  refuseTooMany(await selectSubscriptionCheckoutsAfter(database, organizationId, anHourAgo(nowMs)), nowMs)
}

function planOf(plans: readonly Plan[], planKey: string | null): { readonly plan: Plan; readonly price: string } {
  const plan = planKey === null ? planOnOffer(plans) : plans.find(({ key }) => key === planKey)
  if (plan === undefined && planKey !== null) {
    return refuse(
      'validation-error',
      `There is no plan '${planKey}'. Leave 'plan_key' out for the first one on offer.`,
      {
        param: 'plan_key',
      },
    )
  }
  const price = plan?.paymentPrice
  if (plan === undefined || price === undefined) {
    return refuse('payment-source-unavailable', 'This plan can’t be bought on this server: it has no price.')
  }
  return { plan, price }
}

/**
 * Throws `Refused` where the price of a plan is gone at the payment provider: asking again does not help the customer then. Also where the
 * payment provider can't be asked about the price.
 */
async function refuseGonePrice(
  { provider, log }: SubscriptionRefreshDependencies,
  { key }: Plan,
  price: string,
): Promise<void> {
  if ((await provider.readPrice(price)) !== null) return
  log.warn(
    { plan: key, price },
    'a plan can not be bought: the payment provider has no such price on sale; give the plan another "payment_price"',
  )
  refuse(
    'payment-source-unavailable',
    `The plan '${key}' can’t be bought at the moment. Choose another plan, or ask the operator of this server.`,
  )
}

async function refuseSubscribed(
  { database, clock, plans }: SubscriptionRefreshDependencies,
  organizationId: string,
): Promise<void> {
  const nowMs = clock.now()
  const subscription = await readSubscription(database, organizationId, nowMs)
  if (entitledPlan(plans(), subscription, nowMs) === null) return
  refuse(
    'subscription-exists',
    'This organization is subscribed already. Change the subscription in the billing portal.',
  )
}

/** Retrieves a checkout, and where it is complete its subscription. The results are those of `refreshPayment`. */
export async function refreshSubscriptionCheckout(
  dependencies: SubscriptionRefreshDependencies,
  by: { readonly id: string } | { readonly checkout: string },
  event: string | null = null,
): Promise<Refreshed> {
  const { database, clock, provider } = dependencies
  const row = await selectSubscriptionCheckout(database, provider.name, by)
  if (row === null) return 'unknown'
  if (row.checkout === null) {
    await markSubscriptionCheckoutNotOpened(database, row.id)
    return 'applied'
  }
  if (row.isReplaced && row.state === 'open') await provider.expireCheckout(row.checkout)
  const facts = await provider.retrieveSubscriptionCheckout(row.checkout)
  const result =
    facts.state === 'complete' ? await refreshSubscription(dependencies, facts.subscription, event) : 'applied'
  if (result === 'superseded') return result
  const dueAtMs = facts.state === 'open' ? nextLookMs(row.createdAtMs, clock.now()) : null
  await updateSubscriptionCheckout(database, row.id, facts.state, dueAtMs)
  return result
}
