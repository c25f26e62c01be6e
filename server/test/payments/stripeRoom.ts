/** The room of payments, by Stripe's official package, against a server that stands in for Stripe, with a clock that stands still. */

import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'bun:test'
import { readBalance } from '../../src/billing/admission/balance/balance.ts'
import type { Plan } from '../../src/catalog/plan.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { createLog } from '../../src/infra/log.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { Secret } from '../../src/lib/secret.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { sweepRoom } from '../../src/payments/open.ts'
import type { PaymentDifference } from '../../src/payments/reconcile/difference.ts'
import { openWindow, reconcile, reconcileDue } from '../../src/payments/reconcile/reconcile.ts'
import { createStripe } from '../../src/payments/stripe/client.ts'
import { createStripeProvider } from '../../src/payments/stripe/provider.ts'
import { openSubscriptionCheckout } from '../../src/payments/subscriptions/checkout.ts'
import { noPrices } from '../../src/payments/subscriptions/prices.ts'
import { refreshPayment } from '../../src/payments/topUps/refresh.ts'
import { openTopUp } from '../../src/payments/topUps/topUp.ts'
import { TurnedClock } from '../clock.ts'
import { makeCustomer } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { openStripeServer, STRIPE_KEY, type StripeServer } from '../stripeServer.ts'

export const CHECKOUT_PAGES = {
  successUrl: 'https://t.test/done',
  cancelUrl: 'https://t.test/no',
  savesMethod: false,
  keep: async () => [],
}

/** Of the test that runs. */
interface RoomState {
  fresh: FreshDatabase
  stripe: StripeServer
  clock: TurnedClock
  lines: string[]
}

/** Opens the room for the tests of a file. Each test has a Stripe and a clock of its own; the database is the file's. */
export function useStripeRoom() {
  const state = {} as RoomState
  beforeAll(async () => {
    state.fresh = await freshDatabase()
  })
  afterAll(() => state.fresh.drop())
  beforeEach(async () => {
    state.stripe = await openStripeServer()
    state.clock = new TurnedClock(systemClock.now())
    state.stripe.nowMs = () => state.clock.now()
    state.lines = []
  })
  afterEach(async () => {
    await state.stripe.close()
    const tables = 'payments, payment_customers, payment_reversals, payment_movements, organization_freezes'
    const more = 'payment_reconciliations, payment_subscriptions, payment_callbacks, subscription_checkouts'
    await state.fresh.database.query(`truncate ${tables}, ${more} cascade`)
  })
  const works = partsOf(state)
  return {
    get database() {
      return state.fresh.database
    },
    get stripe() {
      return state.stripe
    },
    get clock() {
      return state.clock
    },
    /** The lines of the log. */
    get lines() {
      return state.lines
    },
    ...works,
    ...customersOf(state, works.parts),
    ...looksOf(state, works.parts),
  }
}

type Parts = ReturnType<typeof partsOf>['parts']

function partsOf(state: RoomState) {
  const log = createLog('debug', { write: (line) => void state.lines.push(line) })

  /** Returns Stripe's price of the plan `small`, $20 a month, which is in force by default. */
  const price = () => state.stripe.all('price')[0]?.id ?? state.stripe.makePrice(2_000)
  const smallPlan = () => ({ key: 'small', paymentPrice: price(), name: 'Small' }) as unknown as Plan

  /** Returns the parts that the room works with. `plans`: those in force. */
  function parts(plans: readonly Plan[] = [smallPlan()]) {
    const { fresh, stripe, clock } = state
    const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: stripe.url })
    const provider = createStripeProvider({ stripe: client, log, automaticTax: false })
    return { database: fresh.database, clock, random: systemRandom(), log, provider, plans: () => plans }
  }
  return { price, parts }
}

/** The acts of organizations. */
function customersOf(state: RoomState, parts: Parts) {
  /** Makes an organization; returns its id. */
  const organization = async () => (await makeCustomer(state.fresh.database, { cents: 0 }, state.clock)).organizationId

  /** Opens a checkout that is paid at Stripe, and of which nobody has told; returns Stripe's id of it. */
  async function paidThere(organizationId: string, amountCents = 2_000): Promise<string> {
    const { checkout } = await openTopUp(parts(), { organizationId, amountCents, ...CHECKOUT_PAGES })
    state.stripe.pay(checkout ?? '')
    return checkout ?? ''
  }

  /** The same, and it is credited. */
  async function paid(organizationId: string, amountCents = 2_000): Promise<string> {
    const checkout = await paidThere(organizationId, amountCents)
    expect(await refreshPayment(parts(), { checkout })).toBe('applied')
    return checkout
  }

  /** Opens a checkout of the plan, which is paid and noted; returns Stripe's id of the subscription. */
  async function subscribe(organizationId: string): Promise<string> {
    const wanted = { organizationId, planKey: null, ...CHECKOUT_PAGES }
    const { checkout } = await openSubscriptionCheckout({ ...parts(), readPrice: noPrices }, wanted)
    state.stripe.pay(checkout.id)
    await state.clock.turn(10 * MINUTE_MS)
    await sweepRoom(parts(), 0, () => false)
    return state.stripe.subscriptionOf(checkout.id)
  }
  return { organization, paidThere, paid, subscribe }
}

/** The periodic tasks, and readers of their results. */
function looksOf(state: RoomState, parts: Parts) {
  /** Returns a balance in US cents. */
  const cents = async (organizationId: string) =>
    Number((await readBalance(state.fresh.database, organizationId)) / 1_000_000n)

  /** So much time passes, and the periodic task runs. Nobody has told of anything. */
  async function pass(milliseconds: number): Promise<void> {
    await state.clock.turn(milliseconds)
    for (let times = 0; times < 2; times += 1) await sweepRoom(parts(), 0, () => false)
  }

  /** Stripe lists no events from now on. */
  function withoutEvents(): void {
    const empty = { object: 'list', url: '/v1/events', has_more: false, data: [] }
    state.stripe.onRequest = ({ path }) => (path === '/v1/events' ? { status: 200, json: empty } : undefined)
  }

  /** Compares everything since the last reconciled instant, or since another one. */
  async function differences(dependencies = parts(), sinceMs?: number): Promise<PaymentDifference[]> {
    const open = await openWindow(state.fresh.database, 'stripe', state.clock.now())
    const window = sinceMs === undefined ? open : { ...open, fromMs: sinceMs }
    return await Array.fromAsync(reconcile(dependencies, window))
  }

  const due = (startedAtMs: number) => reconcileDue(parts(), startedAtMs, () => false)

  async function reconciledUntil(): Promise<number | null> {
    const rows = await state.fresh.database.query<{ at: Date | null }>(
      'select reconciled_until as at from payment_reconciliations',
    )
    return rows[0]?.at?.getTime() ?? null
  }
  return { cents, pass, withoutEvents, differences, due, reconciledUntil }
}
