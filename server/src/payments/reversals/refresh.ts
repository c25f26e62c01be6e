import { tellDebit } from '../../billing/ledger/takeBack.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { adoptCheckout } from '../adoption/adopt.ts'
import { isAgainstOperator, nextReversalLookMs, type ReversalFacts } from '../provider/reversal.ts'
import { refreshSubscription, type SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { noteCallback, wasTold } from '../topUps/callback.ts'
import { organizationOf } from '../topUps/customer.ts'
import type { Refreshed } from '../topUps/refresh.ts'
import { type AppliedReversal, freezeForDispute, postMovements } from './apply.ts'
import {
  insertReversal,
  type LeasedReversal,
  leaseReversal,
  type ReversalOwner,
  selectPaid,
  updateReversal,
} from './store.ts'

/**
 * Retrieves a refund or a dispute and applies what it says: the credit that goes back with the money, the freeze of a disputed payment's
 * organization, the end of a disputed subscription. The results are those of `refreshPayment`; `event` too. Throws `Refused` where the
 * payment provider can't be asked; the reversal stays due then.
 */
export async function refreshReversal(
  dependencies: SubscriptionRefreshDependencies,
  reversal: string,
  event: string | null = null,
): Promise<Refreshed> {
  const { database, clock, random, provider, log } = dependencies
  if (event !== null && (await wasTold(database, provider.name, event))) return 'applied'
  const lease = uuidV7(clock.now(), random)
  const leased = await leaseAnyReversal(dependencies, reversal, lease)
  if (leased === 'superseded' || leased === 'unknown') return leased
  const facts = await provider.retrieveReversal(reversal)
  if (facts === null) return 'unknown'
  const { subscription, organizationId } = leased
  if (facts.foreignCurrency !== null) {
    const named = { organization: organizationId, dispute: reversal, currency: facts.foreignCurrency }
    log.error(named, 'a dispute moved money that is no US dollars: take its credit back by hand (docs/payments.md)')
  }
  const isDisputed = isAgainstOperator(facts.state) && !isAgainstOperator(leased.state)
  // Before the state is written down: where the payment provider can't be asked now, it is tried again.
  if (subscription !== null && isDisputed) await provider.cancelSubscription(subscription)
  const applied = await applyReversal(dependencies, leased, lease, facts, event)
  if (applied === null) return 'superseded'
  if (applied.takenCents > 0) await tellDebit(database, organizationId)
  if (applied.isFrozen) {
    log.warn({ organization: organizationId, dispute: reversal }, 'a payment is disputed: the organization is frozen')
  }
  if (subscription !== null && isDisputed) await refreshSubscription(dependencies, subscription)
  return 'applied'
}

/** Applies what was retrieved in one transaction. Null: another retrieval was begun since. */
function applyReversal(
  { database, clock, random, provider }: SubscriptionRefreshDependencies,
  leased: LeasedReversal,
  lease: string,
  facts: ReversalFacts,
  event: string | null,
): Promise<AppliedReversal | null> {
  return database.transaction(async (tx) => {
    const nowMs = clock.now()
    const changedAtMs = facts.state === leased.state ? leased.changedAtMs : nowMs
    const dueAtMs = nextReversalLookMs(facts.state, changedAtMs, nowMs)
    if (!(await updateReversal(tx, provider.name, lease, facts, { changedAtMs, dueAtMs }))) return null
    if (event !== null) await noteCallback(tx, provider.name, event, nowMs)
    const applying = { random, provider: provider.name, nowMs }
    const isFrozen = await freezeForDispute(tx, applying, leased.organizationId, leased.state, facts)
    // A payment for a subscription was never credit (B8).
    const takenCents = leased.paymentId === null ? 0 : await postMovements(tx, applying, leased.paymentId, facts)
    return { takenCents, isFrozen }
  })
}

/** Takes the lease of a reversal; one that is seen for the first time is inserted if its payment is one of ours. */
async function leaseAnyReversal(
  dependencies: SubscriptionRefreshDependencies,
  reversal: string,
  lease: string,
): Promise<LeasedReversal | 'superseded' | 'unknown'> {
  const { database, clock, provider } = dependencies
  const take = () => leaseReversal(database, provider.name, reversal, lease, clock.now() + MINUTE_MS)
  const known = await take()
  if (known !== null) return known
  const facts = await provider.retrieveReversal(reversal)
  if (facts === null) return 'unknown'
  const owner = await ownerOf(dependencies, facts.payment)
  if (owner === 'superseded' || owner === 'unknown') return owner
  await insertReversal(database, provider.name, facts, owner, clock.now())
  return (await take()) ?? 'unknown'
}

/**
 * Returns whose money a payment is. One that is not paid here yet is retrieved, and adopted where a restored backup does not have it.
 * `superseded`: it is being retrieved by somebody else, or it is ours and not posted yet.
 */
async function ownerOf(
  dependencies: SubscriptionRefreshDependencies,
  payment: string,
): Promise<ReversalOwner | 'superseded' | 'unknown'> {
  const { database, provider } = dependencies
  const known = await selectPaid(database, provider.name, payment)
  if (known !== null) return { organizationId: known.organizationId, paymentId: known.id, subscription: null }
  const owner = await provider.retrieveOwner(payment)
  if (owner === null) return 'unknown'
  if (owner.kind === 'subscription') {
    const organizationId = await organizationOf(database, provider.name, owner.customer)
    return organizationId === null ? 'unknown' : { organizationId, paymentId: null, subscription: owner.subscription }
  }
  if (owner.kind === 'other') {
    // Its payment may be posted any moment, and what is taken of it must not be lost until then.
    return (await organizationOf(database, provider.name, owner.customer)) === null ? 'unknown' : 'superseded'
  }
  const adopted = await adoptCheckout(dependencies, owner.checkout)
  if (adopted !== 'applied') return adopted
  const paid = await selectPaid(database, provider.name, payment)
  return paid === null ? 'superseded' : { organizationId: paid.organizationId, paymentId: paid.id, subscription: null }
}
