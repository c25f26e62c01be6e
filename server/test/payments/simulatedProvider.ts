/**
 * A payment provider in memory, which keeps state as Stripe does. Its list of payments is the judge of every history. Its methods
 * have their effect at once; faults are its callers' to meet.
 */

import type { PlanPrice } from '../../src/catalog/plan.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import type { ListedPayment } from '../../src/payments/provider/autoPayment.ts'
import type { CheckoutFacts, PaidFacts } from '../../src/payments/provider/payment.ts'
import type {
  NewCheckout,
  NewPlanCheckout,
  OpenedCheckout,
  PaymentProvider,
} from '../../src/payments/provider/provider.ts'
import type {
  ListedCheckout,
  ListedEvent,
  ListedReversal,
  NewRefund,
  PaymentOwner,
  ProviderWindow,
  ReversalFacts,
  ToldKind,
} from '../../src/payments/provider/reversal.ts'
import type { SubscriptionCheckoutFacts, SubscriptionFacts } from '../../src/payments/provider/subscriptionFacts.ts'
import { SimulatedAutoPay } from './simulatedAutoPay.ts'
import type { SimulatedCheckout, SimulatedPayment, SimulatedSubscription } from './simulatedObjects.ts'
import { SimulatedReversals } from './simulatedReversals.ts'

const PRICES: Readonly<Record<string, number>> = { price_small: 2_000, price_large: 5_000, price_gone: 900 }
const PERIOD_MS = 30 * DAY_MS

export class SimulatedProvider implements PaymentProvider {
  readonly name = 'stripe'
  readonly checkouts = new Map<string, SimulatedCheckout>()
  readonly payments = new Map<string, SimulatedPayment>()
  readonly subscriptions = new Map<string, SimulatedSubscription>()
  readonly customers = new Map<string, string>()
  /** The callbacks that are still to be told, and all events that are listed. */
  readonly events: ListedEvent[] = []
  readonly listed: ListedEvent[] = []
  readonly reversals: SimulatedReversals
  readonly autoPay: SimulatedAutoPay
  /** The requests to it that no caller may make. */
  readonly complaints: string[] = []
  /** By the id of the payment or the checkout that a checkout was asked for with: an idempotency key. */
  private readonly opened = new Map<string, OpenedCheckout>()
  private made = 0
  private readonly nowMs: () => number
  private readonly renewsAfterMs: number
  private readonly listsEvents: boolean

  /**
   * `renewsAfterMs`: subscriptions are renewed, or end, so long after their period's end. `listsEvents`: false has the lists of objects and
   * the looks alone find everything.
   */
  constructor(nowMs: () => number, renewsAfterMs: number, listsEvents: boolean) {
    this.listsEvents = listsEvents
    this.nowMs = nowMs
    this.renewsAfterMs = renewsAfterMs
    this.reversals = new SimulatedReversals({
      nowMs,
      newId: (prefix) => this.newId(prefix),
      tell: (reversal) => this.tell('reversal', reversal),
      grossOf: (payment) => this.payments.get(payment)?.grossCents ?? null,
    })
    this.autoPay = new SimulatedAutoPay({
      nowMs,
      complain: (words) => this.complaints.push(words),
      take: (asked) => this.paidFacts(this.take(this.newId('pi'), 'credit', asked, asked.paymentId)),
      atCheckouts: (customer) => this.listPaid(customer),
      isUntouched: (payment) => this.reversals.of(payment).length === 0,
    })
  }

  async createCustomer(organizationId: string): Promise<string> {
    const known = this.customers.get(organizationId) ?? this.newId('cus')
    this.customers.set(organizationId, known)
    return known
  }

  async openCheckout({ paymentId, customer, amountCents, savesMethod }: NewCheckout): Promise<OpenedCheckout> {
    return this.open(paymentId, { customer, kind: 'credit', amountCents, price: null, savesMethod })
  }

  async openSubscriptionCheckout({ id, customer, price }: NewPlanCheckout): Promise<OpenedCheckout> {
    return this.open(id, { customer, kind: 'subscription', amountCents: PRICES[price] ?? 0, price, savesMethod: false })
  }

  async expireCheckout(id: string): Promise<void> {
    const found = this.checkout(id)
    if (found.state !== 'open') return
    found.state = 'expired'
    this.tell('checkout', id)
  }

  async retrieveCheckout(id: string): Promise<CheckoutFacts> {
    const { state, payment, savesMethod } = this.checkout(id)
    if (state === 'failed' || state === 'expired') return { state, reason: `It ${state}.` }
    if (state !== 'paid' || payment === null) return { state: state === 'processing' ? state : 'open' }
    return { state, ...this.paidFacts(payment), savedMethod: savesMethod ? `pm_${id}` : null }
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
    return { subscription: id, customer, status, price, ...period, createdAtMs, isPaid, unpaid: null }
  }

  async refundSubscription(id: string): Promise<boolean> {
    const found = this.subscription(id)
    const others = this.subscriptionsOf(found.customer).filter((other) => other !== found)
    const isAllowed = found.wasWithoutEffect || others.some(({ createdAtMs }) => createdAtMs <= found.createdAtMs)
    if (!isAllowed) this.complaints.push(`${id} was refunded as surplus, and none was older`)
    const payment = found.lastPayment
    this.reversals.refund({ payment, amountCents: this.reversals.leftOf(payment), request: `surplus ${payment}` })
    found.isSurplus = true
    return true
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
    if (this.autoPay.made.has(object)) return { kind: 'other', customer }
    return { kind: 'checkout', checkout: this.listedCheckout(this.checkout(object)) }
  }

  async *listCheckouts(window: ProviderWindow): AsyncIterable<ListedCheckout> {
    for (const checkout of this.checkouts.values()) if (isWithin(checkout, window)) yield this.listedCheckout(checkout)
  }

  async *listReversals(window: ProviderWindow): AsyncIterable<ListedReversal> {
    for (const reversal of this.reversals.all.values()) {
      const { id, state, createdAtMs } = reversal
      if (isWithin(reversal, window)) yield { reversal: id, state, createdAtMs }
    }
  }

  readonly saveMethod: PaymentProvider['saveMethod'] = (...asked) => this.autoPay.saveMethod(...asked)
  readonly savedMethod: PaymentProvider['savedMethod'] = (...asked) => this.autoPay.savedMethod(...asked)
  readonly payOffSession: PaymentProvider['payOffSession'] = (...asked) => this.autoPay.payOffSession(...asked)
  readonly giveUp: PaymentProvider['giveUp'] = (...asked) => this.autoPay.giveUp(...asked)
  readonly listPayments: PaymentProvider['listPayments'] = (...asked) => this.autoPay.listPayments(...asked)
  readonly listAutoPayments: PaymentProvider['listAutoPayments'] = (...asked) => this.autoPay.listAutoPayments(...asked)

  async *listEvents(window: ProviderWindow): AsyncIterable<ListedEvent> {
    for (const event of this.listed) if (isWithin(event, window)) yield event
  }

  private listedCheckout({
    id,
    key,
    customer,
    kind,
    state,
    subscription,
    amountCents,
    createdAtMs,
  }: SimulatedCheckout) {
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
    wanted: Pick<SimulatedCheckout, 'customer' | 'kind' | 'amountCents' | 'price' | 'savesMethod'>,
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

  private paidFacts(id: string): PaidFacts {
    const { amountCents, grossCents } = known(this.payments, id)
    return { payment: id, amountCents, grossCents, receiptUrl: null }
  }

  /** The payments of credit at checkouts, as Stripe lists their PaymentIntents. */
  private listPaid(customer: string): ListedPayment[] {
    const all = [...this.checkouts.values()].filter((each) => each.customer === customer && each.kind === 'credit')
    return all.flatMap(({ key: paymentId, state, payment, amountCents, createdAtMs }): ListedPayment[] => {
      if (payment === null) return []
      const listed = { paymentId, kind: 'top_up', customer, amountCents, createdAtMs } as const
      if (state === 'paid') return [{ ...listed, facts: { state, ...this.paidFacts(payment) } }]
      if (state === 'processing') return [{ ...listed, facts: { state } }]
      return [{ ...listed, facts: { state: 'declined', reason: 'The money did not come.' } }]
    })
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

  private tell(kind: ToldKind, object: string): void {
    const event = { event: this.newId('evt'), kind, object, createdAtMs: this.nowMs() }
    this.events.push(event)
    if (this.listsEvents) this.listed.push(event)
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
