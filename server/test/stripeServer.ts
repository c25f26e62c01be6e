/**
 * Stands in for Stripe's API at the wire: it keeps state as Stripe does, answers the official package, and does what a person does on
 * Stripe's pages. It knows the part of the API that Tollgate uses, in the version that Tollgate pins.
 */

import { createHmac, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { changeObject, tellStripe } from './stripeEvents.ts'
import {
  type StripeAnswer as Answered,
  type StripeFields as Fields,
  answeredOk as ok,
  type StripeObject,
  stripeSection as section,
} from './stripeObjects.ts'
import { answerOffSession, type SavedMethodBehaviour, saveStripeMethod } from './stripeOffSession.ts'
import { listObjects, makeRefund, type ReversalActs, reversalActs } from './stripeReversals.ts'

export const STRIPE_KEY = 'sk_test_tollgate'
export const STRIPE_WEBHOOK_SECRET = 'whsec_tollgate'

interface Asked {
  readonly method: string
  readonly path: string
  readonly idempotencyKey: string | undefined
  readonly version: string | undefined
}

export interface StripeServer extends ReversalActs {
  readonly url: string
  /** Every request, in order. */
  readonly asked: readonly Asked[]
  /** In what the account settles. */
  currency: string
  /** The instant that Stripe takes for now, in milliseconds since the epoch. */
  nowMs: () => number
  /** Makes a price of a subscription, by the month. */
  makePrice(amountCents: number): string
  /** Changes an object, as Stripe or a person does by other ways. */
  change(id: string, changes: Record<string, unknown>): void
  /** The operator begins a subscription on Stripe's pages, which no checkout of ours has; returns its id. */
  beginSubscription(customer: string, price: string): string
  /** The id of the subscription that a checkout began. */
  subscriptionOf(session: string): string
  /** So many requests are answered 500 from now on; negative: the connection breaks after the work was done. */
  failures: number
  /** Is told of each request before it is carried out: others act at Stripe then. An answer of its own is sent in place of ours. */
  onRequest: (request: Asked) => Answered | undefined
  /** All objects of a kind, such as `refund`. */
  all(object: string): StripeObject[]
  /** The object of an id. */
  find(id: string): StripeObject
  /** A person pays on the page of a checkout. */
  pay(session: string, options?: PayOptions): void
  /** The money of a delayed payment comes, or not. */
  settle(session: string, isPaid: boolean): void
  /** Signs a callback about an object, as Stripe would at `atMs`. */
  event(
    type: string,
    objectId: string,
    atMs: number,
    eventId?: string,
  ): { body: string; headers: Record<string, string> }
  close(): Promise<void>
}

export interface PayOptions {
  /** By a way whose money comes later. */
  readonly delayed?: boolean
  readonly taxCents?: number
  /** How the payment method behaves later, where the checkout saves it. */
  readonly later?: SavedMethodBehaviour
}

/** Signs a body as Stripe does. */
export function signStripe(body: string, atMs: number, secret = STRIPE_WEBHOOK_SECRET): Record<string, string> {
  const t = Math.floor(atMs / 1_000)
  const v1 = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
  return { 'Stripe-Signature': `t=${t},v1=${v1}`, 'Content-Type': 'application/json' }
}

/** Starts it. Call `close` in `afterAll`. */
export async function openStripeServer(): Promise<StripeServer> {
  const state = new StripeState()
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    const { pathname: path, searchParams } = new URL(request.url ?? '', 'http://stripe.test')
    const body = new Map([...searchParams, ...(await readForm(request))])
    const question = askedOf(request, path)
    asked.push(question)
    const answer = (status: number, json: object) => {
      response.writeHead(status, { 'Content-Type': 'application/json', 'Request-Id': `req_${asked.length}` })
      response.end(JSON.stringify(json))
    }
    if (header(request, 'authorization') !== `Bearer ${STRIPE_KEY}`) {
      return answer(401, {
        error: { type: 'invalid_request_error', message: `Invalid API Key provided: ${STRIPE_KEY}` },
      })
    }
    if (stripe.failures > 0) {
      stripe.failures -= 1
      return answer(500, { error: { type: 'api_error', message: 'secret words of Stripe' } })
    }
    const result = stripe.onRequest(question) ?? state.answer(question.method, path, body, question.idempotencyKey)
    if (stripe.failures < 0) {
      stripe.failures += 1
      return request.socket.destroy()
    }
    return answer(result.status, result.json)
  })
  const url = await listening(server)
  const stripe: StripeServer = {
    url,
    asked,
    get currency() {
      return state.currency
    },
    set currency(currency) {
      state.currency = currency
    },
    get nowMs() {
      return state.nowMs
    },
    set nowMs(nowMs) {
      state.nowMs = nowMs
    },
    failures: 0,
    onRequest: () => undefined,
    makePrice: (amountCents) => state.makePrice(amountCents),
    change: (id, changes) => changeObject(state, id, changes),
    beginSubscription: (customer, price) => state.beginSubscription(customer, price),
    subscriptionOf: (session) => String(state.find(session)['subscription']),
    all: (object) => state.all(object),
    find: (id) => state.find(id),
    pay: (session, options) => state.pay(session, options),
    settle: (session, isPaid) => state.settle(session, isPaid),
    ...reversalActs(state),
    event(type, objectId, atMs, eventId = `evt_${randomBytes(8).toString('hex')}`) {
      const { id, object } = state.find(objectId)
      // The other fields of a callback may be old or wrong.
      const data = { object: { id, object, status: 'complete', payment_status: 'paid', amount_total: 99_999_999 } }
      const body = JSON.stringify({ id: eventId, object: 'event', type, data })
      return { body, headers: signStripe(body, atMs) }
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return stripe
}

function askedOf(request: IncomingMessage, path: string): Asked {
  const [idempotencyKey, version] = [header(request, 'idempotency-key'), header(request, 'stripe-version')]
  return { method: request.method ?? '', path, idempotencyKey, version }
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value[0] : value
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function readForm(request: IncomingMessage): Promise<Fields> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return new Map(new URLSearchParams(Buffer.concat(chunks).toString()))
}

const missing: Answered = {
  status: 404,
  json: { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'No such object' } },
}

/** The objects, and what changes them. */
export class StripeState {
  currency = 'usd'
  nowMs = () => Date.now()
  private readonly objects = new Map<string, StripeObject>()
  private readonly answers = new Map<
    string,
    { readonly request: string; readonly answered: Answered; readonly atMs: number }
  >()
  private made = 0

  find(id: string): StripeObject {
    const found = this.objects.get(id)
    if (found === undefined) throw new Error(`there is no object ${id}`)
    return found
  }

  all(object: string): StripeObject[] {
    return [...this.objects.values()].filter((each) => each.object === object)
  }

  forgetKeys(): void {
    this.answers.clear()
  }

  answer(method: string, path: string, fields: Fields, key: string | undefined): Answered {
    const request = JSON.stringify([method, path, ...fields])
    const before = key === undefined ? undefined : this.answers.get(key)
    // Stripe forgets keys after a day.
    if (before !== undefined && this.nowMs() - before.atMs < 86_400_000) {
      return before.request === request
        ? before.answered
        : { status: 400, json: { error: { type: 'idempotency_error', message: 'Keys can only be used once' } } }
    }
    const answered = this.carryOut(method, path, fields)
    if (key !== undefined && method === 'POST') this.answers.set(key, { request, answered, atMs: this.nowMs() })
    return answered
  }

  private carryOut(method: string, path: string, fields: Fields): Answered {
    const shelf = {
      get: this.objects.get.bind(this.objects),
      all: this.all.bind(this),
      make: this.make.bind(this),
      nowMs: this.nowMs,
    }
    const offSession = answerOffSession(shelf, method, path, fields)
    if (offSession !== null) return offSession
    const [, , resource = '', ...rest] = path.split('/')
    if (method === 'GET' && resource === 'account') return ok({ id: 'acct_1', default_currency: this.currency })
    if (method === 'POST' && path === '/v1/customers') {
      return ok(
        this.make('cus', 'customer', {
          metadata: section(fields, 'metadata'),
          invoice_settings: { default_payment_method: null },
        }),
      )
    }
    if (method === 'POST' && path === '/v1/checkout/sessions') return this.openSession(fields)
    if (method === 'POST' && path === '/v1/billing_portal/sessions') {
      const { id } = this.make('bps', 'billing_portal.session', {})
      return ok({ id, url: `https://billing.stripe.test/p/${id}?return=${fields.get('return_url')}` })
    }
    if (method === 'POST' && path === '/v1/refunds') {
      const refund = makeRefund(this, fields)
      return typeof refund === 'string' ? refusedBecause(refund) : ok(refund)
    }
    if (method === 'GET' && listObjects(this, path, fields) !== null) return ok(listObjects(this, path, fields) ?? {})
    const [first = '', second = ''] = rest
    const [id, verb] = resource === 'checkout' ? [second, rest[2]] : [first, rest[1]]
    const found = this.objects.get(id)
    if (found === undefined) return missing
    if (method === 'GET') return ok(this.expanded(found))
    if (method === 'DELETE' && resource === 'subscriptions')
      return ok(this.told('customer.subscription.deleted', Object.assign(found, { status: 'canceled' })))
    if (verb !== 'expire') return missing
    if (found['status'] !== 'open') return refusedBecause('only an open session can be expired')
    return ok(this.told('checkout.session.expired', Object.assign(found, { status: 'expired' })))
  }

  makePrice(amountCents: number): string {
    const recurring = { interval: 'month', interval_count: 1 }
    return this.make('price', 'price', { active: true, unit_amount: amountCents, currency: 'usd', recurring }).id
  }

  private openSession(fields: Fields): Answered {
    const mode = fields.get('mode')
    const price = this.objects.get(fields.get('line_items[0][price]') ?? '')
    const amount = Number(price?.['unit_amount'] ?? fields.get('line_items[0][price_data][unit_amount]'))
    if (!this.objects.has(fields.get('customer') ?? '')) return missing
    if ((mode === 'subscription') !== (price !== undefined) || !(amount > 0)) return refusedBecause('mode or amount')
    const session = this.make('cs_test', 'checkout.session', {
      mode,
      price: price?.id,
      subscription: null,
      status: 'open',
      payment_status: 'unpaid',
      currency: fields.get('line_items[0][price_data][currency]'),
      amount_subtotal: amount,
      amount_total: amount,
      total_details: { amount_tax: 0, amount_discount: 0, amount_shipping: 0 },
      customer: fields.get('customer'),
      client_reference_id: fields.get('client_reference_id') ?? null,
      metadata: section(fields, 'metadata'),
      success_url: fields.get('success_url'),
      cancel_url: fields.get('cancel_url'),
      automatic_tax: { enabled: fields.get('automatic_tax[enabled]') === 'true' },
      payment_intent: null,
      setup_future_usage: fields.get('payment_intent_data[setup_future_usage]') ?? null,
      intent_metadata: section(fields, 'payment_intent_data[metadata]'),
    })
    session['url'] = `https://checkout.stripe.test/c/pay/${session.id}`
    return ok(session)
  }

  pay(id: string, { delayed = false, taxCents = 0, later = 'succeeds' }: PayOptions = {}): void {
    const session = this.find(id)
    if (session['status'] !== 'open') throw new Error(`the session ${id} is not open`)
    const amount = Number(session['amount_subtotal']) + taxCents
    const { customer, setup_future_usage, intent_metadata: metadata } = session
    const created = Math.floor(this.nowMs() / 1_000)
    const method = saveStripeMethod(
      { make: this.make.bind(this) },
      setup_future_usage === null ? '' : String(customer),
      later,
    )
    const intent = this.make('pi', 'payment_intent', {
      status: 'processing',
      amount,
      latest_charge: null,
      customer,
      created,
      metadata,
      setup_future_usage,
      payment_method: method,
      last_payment_error: null,
    })
    Object.assign(session, { status: 'complete', amount_total: amount, payment_intent: intent.id })
    if (session['mode'] === 'subscription') Object.assign(session, { subscription: this.subscribe(session, intent.id) })
    Object.assign(session, { total_details: { amount_tax: taxCents, amount_discount: 0, amount_shipping: 0 } })
    if (!delayed) this.settle(id, true, false)
    this.told('checkout.session.completed', session)
  }

  beginSubscription(customer: string, price: string): string {
    const { id } = this.make('pi', 'payment_intent', { status: 'succeeded', amount: 2_000, customer, metadata: {} })
    return this.subscribe({ customer, price, amount_total: 2_000 }, id)
  }

  /** A subscription of a month from now on, whose first invoice is paid. */
  private subscribe(session: Record<string, unknown>, intent: string): string {
    const start = Math.floor(this.nowMs() / 1_000)
    const invoice = this.make('in', 'invoice', {
      status: 'paid',
      amount_paid: session['amount_total'],
      billing_reason: 'subscription_create',
      customer: session['customer'],
    })
    this.make('inpay', 'invoice_payment', { invoice: invoice.id, status: 'paid', payment: { payment_intent: intent } })
    const period = { current_period_start: start, current_period_end: start + 30 * 86_400 }
    const price = this.objects.get(String(session['price']))
    const item = { id: 'si_1', object: 'subscription_item', price, ...period }
    const { id } = this.make('sub', 'subscription', {
      customer: session['customer'],
      status: 'active',
      collection_method: 'charge_automatically',
      pause_collection: null,
      created: start,
      cancel_at: null,
      cancel_at_period_end: false,
      latest_invoice: invoice.id,
      items: { object: 'list', data: [item] },
    })
    invoice['parent'] = { type: 'subscription_details', subscription_details: { subscription: id } }
    this.told('customer.subscription.created', this.find(id))
    return id
  }

  settle(id: string, isPaid: boolean, isLate = true): void {
    const session = this.find(id)
    const intent = this.find(String(session['payment_intent']))
    if (!isPaid) {
      intent['status'] = 'requires_payment_method'
      this.told('checkout.session.async_payment_failed', session)
      return
    }
    const charge = this.make('ch', 'charge', { receipt_url: `https://pay.stripe.test/receipts/${intent.id}` })
    Object.assign(intent, { status: 'succeeded', latest_charge: charge.id })
    session['payment_status'] = 'paid'
    if (isLate) this.told('checkout.session.async_payment_succeeded', session)
  }

  /** Stripe gives ids unless they are asked to be expanded; Tollgate asks for these. */
  private expanded(found: StripeObject): object {
    const intent = this.objects.get(String(found['payment_intent']))
    const invoice = this.objects.get(String(found['latest_invoice']))
    if (invoice !== undefined) return { ...found, latest_invoice: invoice }
    if (intent === undefined || found.object !== 'checkout.session') return found
    const charge = this.objects.get(String(intent['latest_charge'])) ?? null
    return { ...found, payment_intent: { ...intent, latest_charge: charge } }
  }

  private told(type: string, object: StripeObject): StripeObject {
    tellStripe(this, type, object)
    return object
  }

  make(prefix: string, object: string, body: Record<string, unknown>): StripeObject {
    this.made += 1
    const id = `${prefix}_${String(this.made).padStart(6, '0')}${randomBytes(4).toString('hex')}`
    const made = { id, object, created: Math.floor(this.nowMs() / 1_000), ...body }
    this.objects.set(id, made)
    return made
  }
}

function refusedBecause(message: string): Answered {
  return { status: 400, json: { error: { type: 'invalid_request_error', message } } }
}
