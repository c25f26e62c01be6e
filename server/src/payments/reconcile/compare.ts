import { isUuid } from '../../lib/ids.ts'
import { HOUR_MS } from '../../lib/time.ts'
import { adoptCheckout, adoptCustomer } from '../adoption/adopt.ts'
import { adoptAutoPayment } from '../autoPay/adopt.ts'
import { findPaymentStates } from '../autoPay/read.ts'
import type { ListedPayment } from '../provider/autoPayment.ts'
import type { ListedCheckout, ListedReversal, ProviderWindow } from '../provider/reversal.ts'
import { refreshReversal } from '../reversals/refresh.ts'
import { reversalStates } from '../reversals/states.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { organizationOf } from '../topUps/customer.ts'
import type { PaymentDifference } from './difference.ts'
import { eachApart, unreadable } from './eachApart.ts'
import { compareEvents } from './events.ts'
import {
  type KnownObject,
  selectByCheckout,
  selectKnownCheckouts,
  selectKnownSubscriptions,
  selectMisposted,
  selectPaidWithin,
  selectReversalsWithin,
} from './store.ts'

/**
 * The clock of this machine may have been a day ahead, and set right since, and a list may lag behind. A day has few payments: those of
 * one that has 10,000 are a hundred pages.
 */
const OVERLAP_MS = 25 * HOUR_MS

/** Looked up at once. */
const BATCH = 100

/** Told while a comparison goes on. */
export interface ComparisonWatch {
  /** A checkout or a payment was made, at this instant, that is not known here and that may still be paid. */
  readonly onOpen?: (createdAtMs: number) => void
  /** So many more objects of the payment provider's lists were looked at. */
  readonly onListed?: (count: number) => void
}

/**
 * Compares all that the payment provider made within a window with the books here, and yields the differences. A
 * payment that is missing here is retrieved and posted, which counts once whatever else does the same at the same
 * time; nothing is ever taken away. In memory are a page of the payment provider's list, and the window's rows here.
 * An object that can't be read now is yielded as `unreadable`. Throws `Refused` where the payment provider can't be asked.
 */
export async function* compareWindow(
  dependencies: SubscriptionRefreshDependencies,
  window: ProviderWindow,
  { onOpen = () => {}, onListed = () => {} }: ComparisonWatch = {},
): AsyncIterable<PaymentDifference> {
  const { database, provider } = dependencies
  const wider = { fromMs: window.fromMs - OVERLAP_MS, untilMs: window.untilMs + OVERLAP_MS }
  // Read before the lists, so that what is made meanwhile is not missed in them.
  const unlisted = byObject(await selectPaidWithin(database, provider.name, window))
  const unlistedReversals = byObject(await selectReversalsWithin(database, provider.name, window))
  for await (const batch of batches(provider.listCheckouts(wider))) {
    onListed(batch.length)
    for (const { checkout } of batch) unlisted.delete(checkout)
    for (const { createdAtMs } of await unknownOpen(dependencies, batch)) onOpen(createdAtMs)
    yield* compareCheckouts(dependencies, batch)
  }
  for await (const batch of batches(provider.listAutoPayments(wider))) {
    onListed(batch.length)
    const readable = batch.flatMap((each) => ('failure' in each ? [] : [each]))
    for (const { createdAtMs } of await unknownProcessing(dependencies, readable)) onOpen(createdAtMs)
    yield* compareAutoPayments(dependencies, readable)
    for (const each of batch) {
      if ('failure' in each) yield unreadable({ object: each.paymentId, ...each }, each.failure)
    }
  }
  for await (const batch of batches(provider.listReversals(wider))) {
    onListed(batch.length)
    for (const { reversal } of batch) unlistedReversals.delete(reversal)
    yield* compareReversals(dependencies, batch)
  }
  // Last, when all that they may be about is here: subscriptions that no checkout began, and changes after all looks have ended.
  for await (const batch of batches(provider.listEvents(wider))) {
    onListed(batch.length)
    yield* compareEvents(dependencies, batch)
  }
  for (const paid of unlisted.values()) yield { kind: 'payment_not_there', ...paid, isMended: false }
  for (const reversal of unlistedReversals.values()) {
    yield { kind: 'reversal_not_there', ...reversal, amountCents: null, isMended: false }
  }
  for (const misposted of await selectMisposted(database, provider.name, window)) {
    yield { kind: 'ledger', ...misposted, isMended: false }
  }
}

function byObject(known: readonly KnownObject[]): Map<string, KnownObject> {
  return new Map(known.map((each) => [each.object, each]))
}

/** Returns the checkouts that are open and not known here, such as those made after a backup that was restored. */
async function unknownOpen(
  { database, provider }: SubscriptionRefreshDependencies,
  batch: readonly ListedCheckout[],
): Promise<readonly ListedCheckout[]> {
  const open = batch.filter(({ state, id }) => state === 'open' && id !== null)
  const ids = open.map(({ checkout }) => checkout)
  const known = await selectKnownCheckouts(database, provider.name, ids)
  return open.filter(({ checkout }) => !known.has(checkout))
}

/** Compares checkouts that are complete: those for credit first, then those for subscriptions. */
async function* compareCheckouts(
  dependencies: SubscriptionRefreshDependencies,
  batch: readonly ListedCheckout[],
): AsyncIterable<PaymentDifference> {
  const { database, provider } = dependencies
  const complete = batch.filter(({ state }) => state === 'complete')
  const forCredit = complete.filter(({ isSubscription }) => !isSubscription)
  const ids = forCredit.map(({ checkout }) => checkout)
  const known = await selectByCheckout(database, provider.name, ids)
  yield* eachApart(forCredit.map(withObject), async function* (listed) {
    const { object, amountCents } = listed
    const before = known.get(object)
    if (before?.state === 'paid') {
      const { organizationId } = before
      if (before.amountCents !== amountCents)
        yield { kind: 'amount', object, organizationId, amountCents, isMended: false }
      return
    }
    await adoptCheckout(dependencies, listed)
    const after = (await selectByCheckout(database, provider.name, [object])).get(object)
    if (after?.state !== 'paid') return
    yield { kind: 'payment', object, organizationId: after.organizationId, amountCents, isMended: true }
  })
  const begun = complete.flatMap((each) => (each.subscription === null ? [] : [{ ...each, object: each.subscription }]))
  const all = begun.map(({ object }) => object)
  const seen = await selectKnownSubscriptions(database, provider.name, all)
  yield* eachApart(begun, async function* (listed) {
    const { object, organizationId } = listed
    if (seen.has(object)) return
    if (!(await adoptCustomer(dependencies, listed))) return
    if ((await refreshSubscription(dependencies, object)) === 'unknown') return
    yield { kind: 'subscription', object, organizationId, amountCents: null, isMended: true }
  })
}

function withObject(listed: ListedCheckout) {
  return { ...listed, object: listed.checkout }
}

/** Returns the payments by auto-pay whose money is on its way and that are not known here: nothing here looks at them again. */
async function unknownProcessing(
  { database }: SubscriptionRefreshDependencies,
  batch: readonly ListedPayment[],
): Promise<readonly ListedPayment[]> {
  const processing = batch.filter(({ paymentId, facts }) => facts.state === 'processing' && isUuid(paymentId))
  const ids = processing.map(({ paymentId }) => paymentId)
  const known = await findPaymentStates(database, ids)
  return processing.filter(({ paymentId }) => !known.has(paymentId))
}

/** Payments by auto-pay have no checkout: they are known by their own ids. */
async function* compareAutoPayments(
  dependencies: SubscriptionRefreshDependencies,
  batch: readonly ListedPayment[],
): AsyncIterable<PaymentDifference> {
  const { database, provider, clock } = dependencies
  const ours = batch.filter(({ paymentId, facts }) => facts.state === 'paid' && isUuid(paymentId))
  const ids = ours.map(({ paymentId }) => paymentId)
  const states = await findPaymentStates(database, ids)
  for (const listed of ours) {
    const { paymentId: object, amountCents, customer } = listed
    if (states.get(object) === 'paid') continue
    const organizationId = await organizationOf(database, provider.name, customer)
    if (organizationId === null) continue
    await adoptAutoPayment(dependencies, organizationId, listed, clock.now())
    yield { kind: 'payment', object, organizationId, amountCents, isMended: true }
  }
}

async function* compareReversals(
  dependencies: SubscriptionRefreshDependencies,
  batch: readonly ListedReversal[],
): AsyncIterable<PaymentDifference> {
  const { database, provider } = dependencies
  const ids = batch.map(({ reversal }) => reversal)
  const known = await reversalStates(database, provider.name, ids)
  const listed = batch.map(({ reversal: object, ...rest }) => ({ object, ...rest }))
  yield* eachApart(listed, async function* ({ object, state }) {
    if (known.get(object)?.state === state) return
    if ((await refreshReversal(dependencies, object)) === 'unknown') return
    const after = (await reversalStates(database, provider.name, [object])).get(object)
    // One whose payment is not posted yet has no row.
    const isMended = after !== undefined
    yield { kind: 'reversal', object, organizationId: after?.organizationId ?? null, amountCents: null, isMended }
  })
}

/** Gathers a list into arrays of at most {@link BATCH}. */
async function* batches<T>(list: AsyncIterable<T>): AsyncIterable<readonly T[]> {
  let batch: T[] = []
  for await (const item of list) {
    batch.push(item)
    if (batch.length < BATCH) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
