import { noteFirstPayment } from '../../billing/ledger/grantCredit.ts'
import { putSubscription, tellSubscription } from '../../billing/plans/setSubscription.ts'
import { endsAt, keyOfUnknownPrice } from '../../billing/plans/subscription.ts'
import type { Plan } from '../../catalog/plan.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { uuidV7 } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { chooseSubscription, hasSubscriptionEnded, type SubscriptionFacts } from '../provider/subscriptionFacts.ts'
import { UnreadableObject } from '../provider/unreadable.ts'
import { noteCallback, wasTold } from '../topUps/callback.ts'
import { lockCustomerOf, organizationOf } from '../topUps/customer.ts'
import type { RefreshDependencies, Refreshed } from '../topUps/refresh.ts'
import {
  insertSubscription,
  type LeasedSubscription,
  leaseSubscription,
  markSurplus,
  type ProviderSubscription,
  selectProviderSubscriptions,
  updateSubscriptionRetrieved,
} from './store.ts'

export interface SubscriptionRefreshDependencies extends RefreshDependencies {
  readonly log: Log
  /** The plans in force. */
  readonly plans: () => readonly Plan[]
}

/** A change that nobody tells of is seen so soon. */
const LOOK_MS = HOUR_MS

/** Stripe leaves the invoice of a renewal open to changes for an hour, and then has it paid. */
const PAYING_MS = 3 * HOUR_MS

/** Nobody tells that a renewal was paid, so it is looked at so often. */
const PAYING_LOOK_MS = 5 * MINUTE_MS

/** A renewal is there so soon after the period has ended. */
const AFTER_END_MS = MINUTE_MS

/** The rest of the work for a surplus subscription is tried again so soon. */
const UNFINISHED_MS = 10 * MINUTE_MS

/**
 * Retrieves a subscription and applies what it says. The one that counts for its organization becomes what the organization is
 * subscribed to; one too many is cancelled and refunded (B9), one of a deleted organization cancelled. The results are those of
 * `refreshPayment`.
 */
export async function refreshSubscription(
  dependencies: SubscriptionRefreshDependencies,
  subscription: string,
  event: string | null = null,
): Promise<Refreshed> {
  const { database, clock, random, provider, log } = dependencies
  if (event !== null && (await wasTold(database, provider.name, event))) return 'applied'
  const lease = uuidV7(clock.now(), random)
  const leased = await leaseAny(dependencies, subscription, lease)
  if (leased === null) return 'unknown'
  const { organizationId } = leased
  const isRefundDone = leased.isSurplus && (await endSurplus(dependencies, subscription, leased))
  if (leased.isForDeleted && !leased.isSurplus) await cancel(dependencies, subscription, leased)
  const facts = await provider.retrieveSubscription(subscription)
  // Before one is called one too many: the row of an older one may say that it lives, and it has ended since.
  if (!hasSubscriptionEnded(facts.status)) await refreshOthers(dependencies, organizationId, subscription)
  // One that lives may be paid for once more: its refund is final when it has ended.
  const isRefunded = isRefundDone && hasSubscriptionEnded(facts.status)
  const applied = await database.transaction(async (tx) => {
    const nowMs = await writeRetrieved(tx, dependencies, lease, leased, facts, isRefunded)
    if (nowMs === null) return null
    if (event !== null) await noteCallback(tx, provider.name, event, nowMs)
    // One that ended before, or before it was ever seen, must not undo what the operator has set since.
    const wasLive = leased.status !== null && !hasSubscriptionEnded(leased.status)
    if (!wasLive && hasSubscriptionEnded(facts.status)) return []
    return await apply(tx, dependencies, organizationId, nowMs)
  })
  if (applied === null) return 'superseded'
  await tellSubscription(database, organizationId).catch((error: unknown) =>
    log.warn({ err: error }, 'processes could not be told of a subscription; they see it within a second'),
  )
  for (const surplus of applied) {
    await refreshSubscription(dependencies, surplus).catch((error: unknown) =>
      log.warn(
        { err: error, subscription: surplus },
        'a surplus subscription could not be looked at; it is tried again',
      ),
    )
  }
  return 'applied'
}

/** Retrieves the other subscriptions of an organization that live by their rows. The choice among all of them comes afterwards. */
async function refreshOthers(
  dependencies: SubscriptionRefreshDependencies,
  organizationId: string,
  subscription: string,
): Promise<void> {
  const { database, clock, random, provider } = dependencies
  const known = await selectProviderSubscriptions(database, organizationId)
  const others = known.filter((each) => each.subscription !== subscription && !each.isSurplus)
  for (const { subscription: other, status } of others) {
    if (hasSubscriptionEnded(status)) continue
    const lease = uuidV7(clock.now(), random)
    const leased = await leaseSubscription(database, provider.name, other, lease, clock.now() + MINUTE_MS)
    if (leased === null) continue
    const facts = await provider.retrieveSubscription(other)
    await database.transaction((tx) => writeRetrieved(tx, dependencies, lease, leased, facts, false))
  }
}

/**
 * Writes down what was retrieved of a subscription under a lease. Locks its customer. Returns the instant that it counts from; null:
 * another retrieval was begun since.
 */
async function writeRetrieved(
  tx: Transaction,
  { clock, provider }: SubscriptionRefreshDependencies,
  lease: string,
  { organizationId, isForDeleted }: LeasedSubscription,
  facts: SubscriptionFacts,
  isRefunded: boolean,
): Promise<number | null> {
  await lockCustomerOf(tx, organizationId, provider.name)
  const nowMs = clock.now()
  const unfinishedDueAtMs = nowMs + UNFINISHED_MS
  const nextMs = nextSubscriptionLookMs(facts, nowMs)
  const dueAtMs = isForDeleted && nextMs !== null ? unfinishedDueAtMs : nextMs
  const due = { dueAtMs, unfinishedDueAtMs, isRefunded }
  if (!(await updateSubscriptionRetrieved(tx, provider.name, lease, facts, due))) return null
  if (facts.isPaid) await noteFirstPayment(tx, organizationId, nowMs)
  return nowMs
}

/**
 * Cancels and refunds a surplus subscription, as far as that is left to do (B9). Neither waits for the other: one that fails is logged,
 * and tried again by the next look. Returns whether the refund is done.
 */
async function endSurplus(
  dependencies: SubscriptionRefreshDependencies,
  subscription: string,
  leased: LeasedSubscription,
): Promise<boolean> {
  await cancel(dependencies, subscription, leased)
  if (leased.isRefunded) return true
  return attempt(
    dependencies,
    subscription,
    (provider) => provider.refundSubscription(subscription),
    'a surplus subscription could not be refunded; it is tried again',
  )
}

/** Cancels a subscription that has not ended, and that is one too many or of a deleted organization. A failure is logged. */
async function cancel(
  dependencies: SubscriptionRefreshDependencies,
  subscription: string,
  { status }: LeasedSubscription,
): Promise<void> {
  if (hasSubscriptionEnded(status ?? '')) return
  await attempt(
    dependencies,
    subscription,
    (provider) => provider.cancelSubscription(subscription).then(() => true),
    'a subscription that nobody may use could not be cancelled; it is tried again',
  )
}

/** Asks the payment provider for something; false where that is not over yet, or where it failed, which is logged. */
function attempt(
  { provider, log }: SubscriptionRefreshDependencies,
  subscription: string,
  ask: (provider: PaymentProvider) => Promise<boolean>,
  failed: string,
): Promise<boolean> {
  return ask(provider).catch((error: unknown) => {
    log.warn({ err: error, subscription }, failed)
    return false
  })
}

/** Takes the lease of a subscription; one that is seen for the first time is inserted if its customer is one of ours. */
async function leaseAny(
  { database, clock, provider }: SubscriptionRefreshDependencies,
  subscription: string,
  lease: string,
) {
  const take = () => leaseSubscription(database, provider.name, subscription, lease, clock.now() + MINUTE_MS)
  const known = await take()
  if (known !== null) return known
  const facts = await provider.retrieveSubscription(subscription).catch(async (error: unknown) => {
    const customer = error instanceof UnreadableObject ? error.customer : null
    // One of other business is nothing to us, whatever it is like.
    if (customer !== null && (await organizationOf(database, provider.name, customer)) === null) return null
    throw error
  })
  if (facts === null) return null
  const organizationId = await organizationOf(database, provider.name, facts.customer)
  if (organizationId === null) return null
  await insertSubscription(database, provider.name, facts, organizationId)
  return take()
}

/** Applies the subscription that counts; returns those that were found to be one too many. */
async function apply(
  tx: Transaction,
  { provider, plans }: SubscriptionRefreshDependencies,
  organizationId: string,
  nowMs: number,
): Promise<readonly string[]> {
  const candidates = await selectProviderSubscriptions(tx, organizationId)
  const { current, surplus } = chooseSubscription(candidates, (each) => mayEntitle(each, plans(), nowMs))
  for (const { subscription } of surplus) await markSurplus(tx, provider.name, subscription, nowMs)
  if (current !== null) await putSubscription(tx, organizationId, entitlementOf(current, plans()), nowMs)
  return surplus.map(({ subscription }) => subscription)
}

/**
 * Returns whether a subscription can count for its organization: its price has a plan, and its period is not unpaid for longer than
 * it entitles (B10). A later one that is paid counts in place of such a one, and is not refunded as one too many (B9).
 */
function mayEntitle(candidate: ProviderSubscription, plans: readonly Plan[], nowMs: number): boolean {
  const plan = planOf(candidate.price, plans)
  if (plan === undefined) return false
  return candidate.unpaidSinceMs === null || nowMs < endsAt(entitlementOf(candidate, plans), plan.graceMs)
}

/** The plan is the one whose price it has. A price of no plan names a plan that nobody can have, and entitles to nothing (B10). */
function entitlementOf(current: ProviderSubscription, plans: readonly Plan[]) {
  const { status, price, periodStartMs, periodEndMs, cancelAtPeriodEnd, unpaidSinceMs } = current
  const plan = planOf(price, plans)
  const planKey = plan?.key ?? keyOfUnknownPrice(price)
  const renewal = unpaidSinceMs === null ? {} : { renewalUntilMs: unpaidSinceMs + PAYING_MS }
  return { planKey, paymentPrice: price, status, periodStartMs, periodEndMs, cancelAtPeriodEnd, ...renewal }
}

function planOf(price: string, plans: readonly Plan[]): Plan | undefined {
  return plans.find(({ paymentPrice }) => paymentPrice === price)
}

/**
 * Returns when a subscription is to be retrieved again: soon while its period is being paid, within an hour, just after its
 * period's end, and after that more and more rarely, up to an hour. Null: it has ended.
 */
function nextSubscriptionLookMs(
  { status, periodStartMs, periodEndMs, unpaid }: SubscriptionFacts,
  nowMs: number,
): number | null {
  if (hasSubscriptionEnded(status)) return null
  if (unpaid !== null && nowMs < periodStartMs + PAYING_MS) return nowMs + PAYING_LOOK_MS
  if (nowMs < periodEndMs) return Math.min(periodEndMs + AFTER_END_MS, nowMs + LOOK_MS)
  return nowMs + Math.min(Math.max(nowMs - periodEndMs, AFTER_END_MS), LOOK_MS)
}
