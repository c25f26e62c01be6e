/**
 * Subscriptions through the whole gateway with Stripe's official package, against a server that stands in for Stripe. A test file has one:
 * `open` in `beforeAll`, `close` in `afterAll`.
 */

import { expect } from 'bun:test'
import { systemClock } from '../src/infra/clock.ts'
import { createLog } from '../src/infra/log.ts'
import { systemRandom } from '../src/infra/random.ts'
import { Secret } from '../src/lib/secret.ts'
import type { PaymentProvider } from '../src/payments/provider/provider.ts'
import { createStripe } from '../src/payments/stripe/client.ts'
import { createStripeProvider } from '../src/payments/stripe/provider.ts'
import type { SubscriptionRefreshDependencies } from '../src/payments/subscriptions/refresh.ts'
import { sweepSubscriptions } from '../src/payments/subscriptions/sweep.ts'
import { type AskedGateway, openAskedGateway } from './acceptance/ask.ts'
import { directed } from './acceptance/catalog.ts'
import type { TestKey } from './customer.ts'
import { openStripeServer, STRIPE_KEY, STRIPE_WEBHOOK_SECRET, type StripeServer } from './stripeServer.ts'

export const CHECKOUT = '/billing/subscription/checkout'
export const PORTAL = '/billing/subscription/portal'

/** The prices of plans at Stripe. */
export type PlanPrices = Readonly<Record<'small' | 'large', string>>

const QUOTA = 'input_tokens_monthly: 1000, output_tokens_monthly: 1000, weekly_tokens: 1000'

const settingsOf = (url: string, prices: PlanPrices) => `
public_url: https://tollgate.test
payments: { provider: stripe, secret_key_env: STRIPE_KEY, webhook_secret_env: STRIPE_WEBHOOK_SECRET, api_url: "${url}" }
rate_limit: { requests_per_second: 10000, burst: 100000 }
new_account_rate_limit: { requests_per_second: 1, burst: 50 }
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/covered
    context_length: 4096
    plan_covered: true
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]
plans:
  - { key: free, name: Free, ${QUOTA} }
  - { key: small, name: Small, ${QUOTA}, payment_price: ${prices.small} }
  - { key: large, name: Large, ${QUOTA}, payment_price: ${prices.large} }
`

const NO_PRICES = { small: '', large: '', unknown: '' }

export class SubscriptionHouse {
  stripe!: StripeServer
  gateway!: AskedGateway
  prices: PlanPrices & { readonly unknown: string } = NO_PRICES
  /** The clock, as many milliseconds ahead. */
  aheadMs = 0
  readonly clock = {
    ...systemClock,
    now: () => systemClock.now() + this.aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + this.aheadMs,
  }
  private delivered = 0

  readonly open = async (): Promise<void> => {
    const { clock } = this
    const stripe = await openStripeServer()
    stripe.nowMs = clock.now
    this.stripe = stripe
    this.prices = { small: stripe.makePrice(2_000), large: stripe.makePrice(5_000), unknown: stripe.makePrice(1) }
    this.gateway = await this.openGateway(this.prices)
  }

  readonly close = async (): Promise<void> => {
    await this.gateway.close()
    await this.stripe.close()
  }

  /** Opens a gateway whose plans have these prices; `beside` shares the database of another one. */
  openGateway(prices: PlanPrices, beside?: AskedGateway): Promise<AskedGateway> {
    const { clock } = this
    const environment = { STRIPE_KEY, STRIPE_WEBHOOK_SECRET }
    const settings = settingsOf(this.stripe.url, prices)
    return openAskedGateway({ settings, environment, clock, ...(beside === undefined ? {} : { beside }) })
  }

  readonly admin = (more = {}): Promise<TestKey> => this.gateway.customer({ admin: true, cents: 0, ...more })

  readonly ask = async (key: TestKey, path: string, body: unknown = {}) => {
    const { status, json } = await this.gateway.ask({ method: 'POST', path, key, body })
    return { status, json: json as Record<string, never> }
  }

  readonly shown = async (key: TestKey, at: AskedGateway = this.gateway) =>
    (await at.ask({ path: '/billing/subscription', key })).json as Record<string, unknown>

  readonly call = (key: TestKey, at: AskedGateway = this.gateway) =>
    at.ask({ path: '/chat/completions', key, body: directed('tokens=5', { model: 'svc/covered', max_tokens: 5 }) })

  readonly verdict = async (key: TestKey) =>
    (await this.gateway.ask({ path: '/inference/preflight?model=svc/covered', key })).json as Record<string, unknown>

  /** Opens a checkout; returns Stripe's id of it. */
  readonly checkout = async (key: TestKey, body: unknown = {}): Promise<string> => {
    const { status, json } = await this.ask(key, CHECKOUT, body)
    expect(status).toBe(200)
    return String(json['session_id'])
  }

  /** Sends a callback; returns the status of the answer. */
  readonly deliver = async (body: string, headers: Record<string, string>): Promise<number> => {
    const request = new Request('http://gateway.test/payments/stripe/events', { method: 'POST', body, headers })
    // Each address may send a few callbacks a second.
    this.delivered += 1
    const address = `10.0.${this.delivered >> 8}.${this.delivered & 255}`
    return (await this.gateway.app.handle(request, { address, setIdleTimeout: () => {} })).status
  }

  /** Sends a callback about an object, signed. */
  readonly tell = (type: string, id: string): Promise<number> => {
    const { body, headers } = this.stripe.event(type, id, this.clock.now())
    return this.deliver(body, headers)
  }

  /** Subscribes; returns Stripe's id of the subscription. */
  readonly subscribed = async (key: TestKey, body: unknown = {}): Promise<string> => {
    const session = await this.checkout(key, body)
    this.stripe.pay(session)
    const subscription = this.stripe.subscriptionOf(session)
    const told = await this.tell('customer.subscription.created', subscription)
    // The sweep of the gateway may retrieve it at the same moment. The callback is answered 503 then, and Stripe sends it again.
    expect(told === 503 ? await this.tell('customer.subscription.created', subscription) : told).toBe(200)
    return subscription
  }

  /** Returns what another process has; `dressed` stands in for parts of its payment provider. */
  dependencies(dressed: Partial<PaymentProvider> = {}): SubscriptionRefreshDependencies {
    const log = createLog('debug', { write: () => {} })
    const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: this.stripe.url })
    const provider = { ...createStripeProvider({ stripe: client, log, automaticTax: false }), ...dressed }
    const { database } = this.gateway
    const plans = () => this.gateway.app.catalog.current().plans
    return { database, clock: this.clock, random: systemRandom(), log, provider, plans }
  }

  /** Another process sweeps. */
  readonly sweep = () => sweepSubscriptions(this.dependencies(), () => false)
}
