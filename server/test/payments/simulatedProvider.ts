/**
 * A payment provider in memory, which keeps state as Stripe does. Its list of payments is the judge of every history. Its methods
 * have their effect at once; faults are its callers' to meet.
 */

import type { PlanPrice } from '../../src/catalog/plan.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import type { AutoPaymentFacts, ListedPayment } from '../../src/payments/provider/autoPayment.ts'
import type { CheckoutFacts } from '../../src/payments/provider/payment.ts'
import type {
  NewCheckout,
  NewPlanCheckout,
  OpenedCheckout,
  PaymentProvider,
} from '../../src/payments/provider/provider.ts'
import type {
  ListedCheckout,
  ListedReversal,
  NewRefund,
  PaymentOwner,
  ProviderWindow,
  ReversalFacts,
} from '../../src/payments/provider/reversal.ts'
import type { SubscriptionCheckoutFacts, SubscriptionFacts } from '../../src/payments/provider/subscriptionFacts.ts'
import { SimulatedReversals } from './simulatedReversals.ts'

export interface SimulatedCheckout {
  readonly id: string
  /** Our id of it. */
  readonly key: string
  readonly createdAtMs: number
  readonly customer: string
  readonly kind: 'credit' | 'subscription'
  /** Without tax. */
  amountCents: number
  /** Of a subscription. */
  readonly price: string | null
  readonly expiresAtMs: number
  state: 'open' | 'processing' | 'paid' | 'failed' | 'expired'
  payment: string | null
  subscription: string | null
}

/** Money that came. */
export interface SimulatedPayment {
  readonly id: string
  readonly customer: string
  readonly kind: 'credit' | 'subscription'
  readonly amountCents: number
  /** With tax. */
  readonly grossCents: number
  /** The checkout or the subscription that it paid for. */
  readonly object: string
}

export interface SimulatedSubscription {
  readonly id: string
  readonly customer: string
  readonly createdAtMs: number
  price: string
  status: 'active' | 'past_due' | 'canceled'
  periodStartMs: number
  periodEndMs: number
  cancelAtPeriodEnd: boolean
  /** The bank refuses the next renewal. */
  failsNext: boolean
  lastPayment: string
  /** It entitled to nothing once, being past due or at a price of no plan: it may be the one too many although it is older. */
  wasWithoutEffect: boolean
  /** It was cancelled because there was another one. */
  isSurplus: boolean
}

/** A callback that is still to be told. */
export interface SimulatedEvent {
  readonly id: string
  readonly about: 'checkout' | 'subscription' | 'reversal'
  readonly object: string
}

const PRICES: Readonly<Record<string, number>> = { price_small: 2_000, price_large: 5_000, price_gone: 900 }
const PERIOD_MS = 30 * DAY_MS

export class SimulatedProvider implements PaymentProvider {
  readonly name = 'stripe'
  readonly checkouts = new Map<string, SimulatedCheckout>()
  readonly payments = new Map<string, SimulatedPayment>()
  readonly subscriptions = new Map<string, SimulatedSubscription>()
  readonly customers = new Map<string, string>()
  readonly events: SimulatedEvent[] = []
  readonly reversals: SimulatedReversals
  /** The requests to it that no caller may make. */
  readonly complaints: string[] = []
  /** By the id of the payment or the checkout that a checkout was asked for with: an idempotency key. */
  private readonly opened = new Map<string, OpenedCheckout>()
  private made = 0
  private readonly nowMs: () => number
  private readonly renewsAfterMs: number

  /** `renewsAfterMs`: subscriptions are renewed, or end, so long after their period's end. */
  constructor(nowMs: () => number, renewsAfterMs: number) {
    this.nowMs = nowMs
    this.renewsAfterMs = renewsAfterMs
    this.reversals = new SimulatedReversals({
      nowMs,
      newId: (prefix) => this.newId(prefix),
      tell: (reversal) => this.tell('reversal', reversal),
      grossOf: (payment) => this.payments.get(payment)?.grossCents ?? null,
    })
  }

  async createCustomer(organizationId: string): Promise<string> {
    const known = this.customers.get(organizationId) ?? this.newId('cus')
    this.customers.set(organizationId, known)
    return known
  }

  async openCheckout({ paymentId, customer, amountCents }: NewCheckout): Promise<OpenedCheckout> {
    return this.open(paymentId, { customer, kind: 'credit', amountCents, price: null })
  }

  async openSubscriptionCheckout({ id, customer, price }: NewPlanCheckout): Promise<OpenedCheckout> {
    return this.open(id, { customer, kind: 'subscription', amountCents: PRICES[price] ?? 0, price })
  }

  async expireCheckout(id: string): Promise<void> {
    const found = this.checkout(id)
    if (found.state !== 'open') return
    found.state = 'expired'
    this.tell('checkout', id)
  }

  async retrieveCheckout(id: string): Promise<CheckoutFacts> {
    const { state, payment } = this.checkout(id)
    if (state === 'failed' || state === 'expired') return { state, reason: `It ${state}.` }
    const paid = this.payments.get(payment ?? '')
    if (state !== 'paid' || paid === undefined) return { state: state === 'processing' ? state : 'open' }
    return {
      state,
      payment: paid.id,
      amountCents: paid.amountCents,
      grossCents: paid.grossCents,
      receiptUrl: null,
      savedMethod: null,
    }
  }

  async retrieveSubscriptionCheckout(id: string): Promise<SubscriptionCheckoutFacts> {
    const { state, subscription } = this.checkout(id)
    if (subscription !== null) return { state: 'complete', subscription }
    return { state: state === 'expired' ? 'expired' : 'open' }
  }

  async retrieveSubscription(id: string): Promise<SubscriptionFacts> {
    const { customer, status, price, periodStartMs, periodEndMs, cancelAtPeriodEnd, createdAtMs } =
      this.subscription(id)
    const isPaid = status !== 'past_due'
    const period = { periodStartMs, periodEndMs, cancelAtPeriodEnd }
    return { subscription: id, customer, status, price, ...period, createdAtMs, isPaid }
  }

  async refundSubscription(id: string): Promise<void> {
    const found = this.subscription(id)
    const others = this.subscriptionsOf(found.customer).filter((other) => other !== found)
    const isAllowed = found.wasWithoutEffect || others.some(({ createdAtMs }) => createdAtMs <= found.createdAtMs)
    if (!isAllowed) this.complaints.push(`${id} was refunded as surplus, and none was older`)
    const payment = found.lastPayment
    this.reversals.refund({ payment, amountCents: this.reversals.leftOf(payment), request: `surplus ${payment}` })
    found.isSurplus = true
  }

  async cancelSubscription(id: string): Promise<void> {
    const found = this.subscription(id)
    if (found.status === 'canceled') return
    found.status = 'canceled'
    this.tell('subscription', id)
  }

  async refund(wanted: NewRefund): Promise<string | null> {
    return this.reversals.refund(wanted)
  }

  async retrieveReversal(id: string): Promise<ReversalFacts> {
    return this.reversals.factsOf(id)
  }

  async retrieveOwner(id: string): Promise<PaymentOwner | null> {
    const { kind, object, customer } = known(this.payments, id)
    if (kind === 'subscription') return { kind, subscription: object, customer }
    return { kind: 'checkout', checkout: this.listed(this.checkout(object)) }
  }

  async *listCheckouts(window: ProviderWindow): AsyncIterable<ListedCheckout> {
    for (const checkout of this.checkouts.values()) if (isWithin(checkout, window)) yield this.listed(checkout)
  }

  async *listReversals(window: ProviderWindow): AsyncIterable<ListedReversal> {
    for (const reversal of this.reversals.all.values()) {
      const { id, state, createdAtMs } = reversal
      if (isWithin(reversal, window)) yield { reversal: id, state, createdAtMs }
    }
  }

  /** Nobody saves a payment method here. */
  async saveMethod(): Promise<boolean> {
    return false
  }

  async savedMethod(): Promise<string | null> {
    return null
  }

  async payOffSession(): Promise<AutoPaymentFacts> {
    throw new Error('nobody has saved a payment method')
  }

  async listPayments(): Promise<readonly ListedPayment[]> {
    return []
  }

  async *listAutoPayments(): AsyncIterable<ListedPayment> {}

  private listed({ id, key, customer, kind, state, subscription, amountCents, createdAtMs }: SimulatedCheckout) {
    const [organizationId = null] = [...this.customers].find(([, each]) => each === customer) ?? []
    const listedState = state === 'open' || state === 'expired' ? state : 'complete'
    const isSubscription = kind === 'subscription'
    const about = { customer, organizationId, amountCents, createdAtMs }
    return { checkout: id, state: listedState, subscription, isSubscription, id: key, ...about } as const
  }

  async openPortal(customer: string, returnUrl: string): Promise<string> {
    return `https://portal.test/${customer}?${returnUrl}`
  }

  async readPrice(price: string): Promise<PlanPrice | null> {
    const amountCents = PRICES[price]
    return amountCents === undefined ? null : { amountCents, currency: 'usd', interval: 'month', intervalCount: 1 }
  }

  /** A person pays. `delayed`: the money comes later. `discountCents`: less is paid than was asked for. */
  pay(id: string, { delayed, discountCents }: { delayed: boolean; discountCents: number }): void {
    const found = this.checkout(id)
    if (found.state !== 'open') return
    if (found.kind === 'subscription') {
      this.subscribe(found)
      return
    }
    found.state = 'processing'
    found.payment = this.newId('pi')
    found.amountCents -= discountCents
    if (!delayed) this.settle(id, true)
    else this.tell('checkout', id)
  }

  /** The money of a delayed payment comes, or not. */
  settle(id: string, isPaid: boolean): void {
    const found = this.checkout(id)
    if (found.state !== 'processing' || found.payment === null) return
    found.state = isPaid ? 'paid' : 'failed'
    if (isPaid) this.take(found.payment, 'credit', found, id)
    this.tell('checkout', id)
  }

  private subscribe(checkout: SimulatedCheckout): void {
    const { customer, price, amountCents } = checkout
    const id = this.newId('sub')
    const lastPayment = this.take(this.newId('pi'), 'subscription', { customer, amountCents }, id)
    const createdAtMs = this.nowMs()
    this.subscriptions.set(id, {
      id,
      customer,
      createdAtMs,
      price: price ?? '',
      status: 'active',
      periodStartMs: createdAtMs,
      periodEndMs: createdAtMs + PERIOD_MS,
      cancelAtPeriodEnd: false,
      failsNext: false,
      lastPayment,
      wasWithoutEffect: false,
      isSurplus: false,
    })
    Object.assign(checkout, { state: 'paid', subscription: id })
    this.tell('checkout', checkout.id)
    this.tell('subscription', id)
  }

  /** A person changes a subscription in the portal, or a bank does. */
  change(id: string, changes: Partial<Pick<SimulatedSubscription, 'price' | 'cancelAtPeriodEnd' | 'failsNext'>>): void {
    const found = this.subscription(id)
    if (found.status === 'canceled') return
    Object.assign(found, changes)
    if (found.price === 'price_gone') found.wasWithoutEffect = true
    this.tell('subscription', id)
  }

  /** Does what is due: checkouts expire, subscriptions are renewed or end. */
  passTime(): void {
    const nowMs = this.nowMs()
    for (const checkout of this.checkouts.values()) {
      if (checkout.state !== 'open' || nowMs < checkout.expiresAtMs) continue
      checkout.state = 'expired'
      this.tell('checkout', checkout.id)
    }
    for (const subscription of this.subscriptions.values()) {
      while (subscription.status !== 'canceled' && nowMs >= subscription.periodEndMs + this.renewsAfterMs) {
        this.renew(subscription)
      }
    }
  }

  private renew(subscription: SimulatedSubscription): void {
    const { customer, price, cancelAtPeriodEnd, failsNext, status, periodEndMs } = subscription
    this.tell('subscription', subscription.id)
    // A bank that refuses twice ends it, as does the customer's own word.
    if (cancelAtPeriodEnd || (failsNext && status === 'past_due')) {
      subscription.status = 'canceled'
      return
    }
    subscription.periodStartMs = periodEndMs
    subscription.periodEndMs = periodEndMs + PERIOD_MS
    subscription.status = failsNext ? 'past_due' : 'active'
    if (failsNext) subscription.wasWithoutEffect = true
    else {
      const paid = { customer, amountCents: PRICES[price] ?? 0 }
      subscription.lastPayment = this.take(this.newId('pi'), 'subscription', paid, subscription.id)
    }
  }

  subscriptionsOf(customer: string): SimulatedSubscription[] {
    return [...this.subscriptions.values()].filter((each) => each.customer === customer)
  }

  checkout(id: string): SimulatedCheckout {
    return known(this.checkouts, id)
  }

  private subscription(id: string): SimulatedSubscription {
    return known(this.subscriptions, id)
  }

  private open(
    key: string,
    wanted: Pick<SimulatedCheckout, 'customer' | 'kind' | 'amountCents' | 'price'>,
  ): OpenedCheckout {
    const before = this.opened.get(key)
    if (before !== undefined) return before
    const id = this.newId('cs')
    const expiresAtMs = this.nowMs() + DAY_MS
    const createdAtMs = this.nowMs()
    const made = {
      id,
      key,
      createdAtMs,
      ...wanted,
      expiresAtMs,
      state: 'open',
      payment: null,
      subscription: null,
    } as const
    this.checkouts.set(id, { ...made })
    const opened = { id, url: `https://checkout.test/${id}` }
    this.opened.set(key, opened)
    return opened
  }

  /** Tax is a fifth in some countries: of those whose amounts are even. */
  private take(
    id: string,
    kind: SimulatedPayment['kind'],
    { customer, amountCents }: { readonly customer: string; readonly amountCents: number },
    object: string,
  ): string {
    const grossCents = amountCents % 2 === 0 ? Math.round(amountCents * 1.2) : amountCents
    this.payments.set(id, { id, customer, kind, amountCents, grossCents, object })
    return id
  }

  private tell(about: SimulatedEvent['about'], object: string): void {
    this.events.push({ id: this.newId('evt'), about, object })
  }

  private newId(prefix: string): string {
    this.made += 1
    return `${prefix}_${this.made}`
  }
}

function known<T>(objects: ReadonlyMap<string, T>, id: string): T {
  const found = objects.get(id)
  if (found === undefined) throw new Error(`the payment provider has no ${id}`)
  return found
}

function isWithin({ createdAtMs }: { readonly createdAtMs: number }, { fromMs, untilMs }: ProviderWindow): boolean {
  return createdAtMs >= fromMs && createdAtMs < untilMs
}
