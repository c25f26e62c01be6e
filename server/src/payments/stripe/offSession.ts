/** Payments by saved payment methods at Stripe: a PaymentIntent, or with tax an invoice of the amount and its tax. */

import Stripe from 'stripe'
import type { Log } from '../../lib/log.ts'
import { HOUR_MS } from '../../lib/time.ts'
import {
  type AutoPaymentFacts,
  GIVEN_UP,
  type ListedPayment,
  type NewAutoPayment,
  type OffSessionProvider,
  type UnreadablePayment,
} from '../provider/autoPayment.ts'
import { UnreadableObject } from '../provider/unreadable.ts'
import { asking, eachOf } from './client.ts'
import { AUTHENTICATION, asksForPerson, declinedFor, intentFactsFromWire } from './declines.ts'
import { CURRENCY } from './facts.ts'

interface OffSessionDependencies {
  readonly stripe: Stripe
  readonly log: Log
  readonly automaticTax: boolean
}

/** Stripe's clock and ours may differ by so much. */
const SKEW_MS = HOUR_MS

/** A customer with more payments than this is never looked through at once. */
const CUSTOMER_PAYMENTS_MOST = 5_000

/** The most that Stripe gives at once. */
const PAGE = 100

/** With these statuses Stripe has done nothing. With others, such as 409, another request may be under way. */
const CERTAIN: ReadonlySet<number> = new Set([400, 404])

/** Names our payments in the metadata of Stripe's objects. One without a kind is a top-up. */
const PAYMENT = 'tollgate_payment'
const KIND = 'tollgate_kind'

/** The state that an invoice of ours was made void for, in its metadata: Stripe cancels its PaymentIntent, which shows no reason then. */
const ENDED = 'tollgate_ended'

export function createStripeOffSession(dependencies: OffSessionDependencies): OffSessionProvider {
  const { stripe, log, automaticTax } = dependencies
  return {
    async saveMethod(customer, method) {
      const changes = { invoice_settings: { default_payment_method: method } }
      const save = () => stripe.customers.update(customer, changes)
      return asking(log, 'save a payment method', () =>
        save().then(
          () => true,
          (error: unknown) => (isCertain(error) ? false : Promise.reject(error)),
        ),
      )
    },
    async savedMethod(customer) {
      const found = await asking(log, 'read a customer', () => stripe.customers.retrieve(customer))
      const method = found.deleted === true ? null : found.invoice_settings.default_payment_method
      return typeof method === 'object' ? (method?.id ?? null) : method
    },
    payOffSession: (wanted) =>
      asking(log, 'pay by a saved payment method', () =>
        declinedOr(() => (automaticTax ? payByInvoice(stripe, wanted) : payByIntent(stripe, wanted))),
      ),
    giveUp: (begun) => asking(log, 'give a payment up', () => giveUp(stripe, begun)),
    listPayments: (customer, sinceMs) =>
      asking(log, 'list payments', async () => [
        ...(await listIntents(stripe, { customer, created: since(sinceMs) })),
        ...(await listInvoices(stripe, { customer, created: since(sinceMs) })),
      ]),
    async *listAutoPayments({ fromMs, untilMs }) {
      const created = { ...since(fromMs), lt: Math.ceil(untilMs / 1_000) }
      const doing = 'list payments by auto-pay'
      for await (const intent of eachOf(log, doing, intentList(stripe, { created }))) {
        yield* intentFromWire(intent).filter(({ kind }) => kind === 'auto_pay')
      }
      for await (const invoice of eachOf(log, doing, invoiceList(stripe, { created }))) {
        if (invoice.metadata?.[KIND] !== 'auto_pay') continue
        yield* await asking(log, doing, () => invoiceFromWire(stripe, invoice), invoice.id).catch((error: unknown) =>
          unreadableInvoice(invoice, error),
        )
      }
    },
  }
}

/**
 * A card error, a request that Stripe calls invalid, and any error by which the bank asks for the person say for certain that nothing was
 * paid. Every other error leaves it open.
 */
async function declinedOr(pay: () => Promise<AutoPaymentFacts>): Promise<AutoPaymentFacts> {
  try {
    return await pay()
  } catch (error) {
    if (error instanceof Stripe.errors.StripeCardError) return declinedFor(error)
    if (error instanceof Stripe.errors.StripeError && asksForPerson(error.code)) return AUTHENTICATION
    if (isCertain(error)) return { state: 'declined', reason: 'The saved payment method can’t be used.' }
    throw error
  }
}

/** Returns whether Stripe took a request for invalid, and has done nothing. */
function isCertain(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeInvalidRequestError && CERTAIN.has(error.statusCode ?? 0)
}

const metadataOf = ({ paymentId }: NewAutoPayment) => ({ [PAYMENT]: paymentId, [KIND]: 'auto_pay' })

async function payByIntent(stripe: Stripe, wanted: NewAutoPayment): Promise<AutoPaymentFacts> {
  const { paymentId, customer, method, amountCents, description } = wanted
  const intent = await stripe.paymentIntents.create(
    {
      amount: amountCents,
      currency: CURRENCY,
      customer,
      payment_method: method,
      off_session: true,
      confirm: true,
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      description,
      metadata: metadataOf(wanted),
      expand: ['latest_charge'],
    },
    { idempotencyKey: `tollgate:auto-pay:${paymentId}` },
  )
  return intentFactsFromWire(intent, amountCents)
}

/** Every step is made once: it has an idempotency key, and is left out where the invoice shows that it was made. */
async function payByInvoice(stripe: Stripe, wanted: NewAutoPayment): Promise<AutoPaymentFacts> {
  const { paymentId, customer, method, amountCents, description, createdAtMs } = wanted
  const key = (step: string) => ({ idempotencyKey: `tollgate:auto-pay:${paymentId}:${step}` })
  const invoices = await ourInvoices(stripe, { customer, created: since(createdAtMs) })
  let invoice =
    invoices.find(({ metadata }) => metadata?.[PAYMENT] === paymentId) ??
    (await stripe.invoices.create(
      {
        customer,
        currency: CURRENCY,
        collection_method: 'charge_automatically',
        // Stripe tries no payment by itself: when to pay again is decided here.
        auto_advance: false,
        pending_invoice_items_behavior: 'exclude',
        default_payment_method: method,
        automatic_tax: { enabled: true },
        // Else it has the discount of its customer, and pays less than was agreed.
        discounts: '',
        description,
        metadata: metadataOf(wanted),
      },
      key('invoice'),
    ))
  if (invoice.status === 'draft') {
    const item = { customer, invoice: invoice.id, amount: amountCents, currency: CURRENCY, description }
    if (invoice.lines.data.length === 0)
      await stripe.invoiceItems.create({ ...item, tax_behavior: 'exclusive' }, key('item'))
    invoice = await stripe.invoices.finalizeInvoice(invoice.id, { auto_advance: false }, key('finalize'))
  }
  const pay = { off_session: true, payment_method: method }
  const declined =
    invoice.status === 'open' ? await declineOf(() => stripe.invoices.pay(invoice.id, pay, key('pay'))) : null
  const current = await stripe.invoices.retrieve(invoice.id)
  const facts = await invoiceFacts(stripe, current)
  if (facts.state !== 'begun') return facts
  if (declined !== null && current.status === 'open') await makeVoid(stripe, current, declined.state)
  return declined ?? { state: 'processing' }
}

/** A PaymentIntent needs no end: it is confirmed as it is made, and one that is not can be paid by nobody but us. */
async function giveUp(
  stripe: Stripe,
  { paymentId, customer, createdAtMs }: Pick<ListedPayment, 'paymentId' | 'customer' | 'createdAtMs'>,
): Promise<AutoPaymentFacts> {
  const invoices = await ourInvoices(stripe, { customer, created: since(createdAtMs) })
  const invoice = invoices.find(({ metadata }) => metadata?.[PAYMENT] === paymentId)
  if (invoice === undefined) return GIVEN_UP
  const facts = await invoiceFacts(stripe, invoice)
  if (facts.state !== 'begun') return facts
  if (invoice.status === 'draft') await ending(invoice.id, () => stripe.invoices.del(invoice.id))
  else await makeVoid(stripe, invoice, GIVEN_UP.state)
  return GIVEN_UP
}

/** Returns why a payment was declined; null where it was not. */
async function declineOf(pay: () => Promise<unknown>): Promise<AutoPaymentFacts | null> {
  const facts = await declinedOr(async () => {
    await pay()
    return { state: 'processing' }
  })
  return facts.state === 'processing' ? null : facts
}

/** Returns the facts of an invoice of ours. One whose payment was declined is made void, so that nobody can pay it later. */
async function invoiceFacts(stripe: Stripe, invoice: Stripe.Invoice): Promise<ListedPayment['facts']> {
  const { id, status, metadata, hosted_invoice_url: receiptUrl = null } = invoice
  if (status === 'draft') return { state: 'begun' }
  const amountCents = invoice.total_excluding_tax ?? invoice.subtotal
  const { data } = await stripe.invoicePayments.list({ invoice: id })
  // The newest come first. One that was tried before may be there beside the one that is paid.
  const reference = (data.find((each) => each.status === 'paid') ?? data[0])?.payment.payment_intent
  const intentId = typeof reference === 'object' ? reference.id : reference
  if (status === 'paid') {
    // A refund gives back no more than that. It is 0 where the customer's balance at Stripe has paid all: nothing can be refunded then.
    const grossCents = invoice.amount_paid > 0 ? invoice.amount_paid : invoice.total
    return { state: 'paid', payment: intentId ?? id, amountCents, grossCents, receiptUrl }
  }
  const intent = intentId === undefined ? null : await stripe.paymentIntents.retrieve(intentId)
  if (intent?.status === 'processing') return { state: 'processing' }
  if (status === 'void' && metadata?.[ENDED] === GIVEN_UP.state) return GIVEN_UP
  if (status === 'void' && metadata?.[ENDED] === AUTHENTICATION.state) return AUTHENTICATION
  const failure = intent?.last_payment_error ?? null
  const asks = intent?.status === 'requires_action'
  if (status === 'open' && failure === null && !asks) return { state: 'begun' }
  const facts = asks ? AUTHENTICATION : declinedFor({ code: failure?.code, decline_code: failure?.decline_code })
  if (status === 'open') await makeVoid(stripe, invoice, facts.state)
  return facts
}

/** Makes an open invoice void, once its metadata says why. */
async function makeVoid(stripe: Stripe, { id }: Stripe.Invoice, state: AutoPaymentFacts['state']): Promise<void> {
  await stripe.invoices.update(id, { metadata: { [ENDED]: state } })
  await ending(id, () => stripe.invoices.voidInvoice(id))
}

/** Ends an invoice. Where Stripe refuses, it may have been paid meanwhile: then nothing is certain, and it is looked at again. */
async function ending(id: string, end: () => Promise<unknown>): Promise<void> {
  await end().catch((error: unknown) => {
    if (!isCertain(error)) throw error
    throw new UnreadableObject({ object: id, why: 'Stripe does not end the invoice' })
  })
}

/** Of one customer, or of all. All are gone through page by page. */
interface ListFilter {
  readonly customer?: string
  readonly created: { readonly gte: number; readonly lt?: number }
}

function intentList(stripe: Stripe, filter: ListFilter) {
  return stripe.paymentIntents.list({ ...filter, limit: PAGE, expand: ['data.latest_charge'] })
}

function invoiceList(stripe: Stripe, filter: ListFilter) {
  return stripe.invoices.list({ ...filter, limit: PAGE })
}

async function listIntents(stripe: Stripe, filter: ListFilter): Promise<ListedPayment[]> {
  return (await whole(intentList(stripe, filter))).flatMap(intentFromWire)
}

/** A PaymentIntent of a list; none where it is not ours. */
function intentFromWire(intent: Stripe.PaymentIntent): readonly ListedPayment[] {
  const { metadata, amount: amountCents } = intent
  // One that was never confirmed is paid by nobody but who asks for it again.
  const isBegun = intent.status === 'requires_confirmation'
  const facts = isBegun ? ({ state: 'begun' } as const) : intentFactsFromWire(intent, amountCents)
  const [customer, createdAtMs] = [idOf(intent.customer), intent.created * 1_000]
  return listed(metadata, { amountCents, customer, createdAtMs, facts })
}

async function listInvoices(stripe: Stripe, filter: ListFilter): Promise<ListedPayment[]> {
  const all: ListedPayment[] = []
  for (const invoice of await ourInvoices(stripe, filter)) all.push(...(await invoiceFromWire(stripe, invoice)))
  return all
}

/** An invoice of a list, with what became of it; none where it is not ours. */
async function invoiceFromWire(stripe: Stripe, invoice: Stripe.Invoice): Promise<readonly ListedPayment[]> {
  const amountCents = invoice.total_excluding_tax ?? invoice.subtotal
  const facts = await invoiceFacts(stripe, invoice)
  const [customer, createdAtMs] = [idOf(invoice.customer), invoice.created * 1_000]
  return listed(invoice.metadata, { amountCents, customer, createdAtMs, facts })
}

/** Returns an invoice of a list that can't be read now. Throws where Stripe can't be asked at all. */
function unreadableInvoice({ metadata, id, created }: Stripe.Invoice, error: unknown): readonly UnreadablePayment[] {
  if (!(error instanceof UnreadableObject)) throw error
  return [{ paymentId: metadata?.[PAYMENT] ?? id, createdAtMs: created * 1_000, failure: error }]
}

async function ourInvoices(stripe: Stripe, filter: ListFilter): Promise<Stripe.Invoice[]> {
  const invoices = await whole(invoiceList(stripe, filter))
  return invoices.filter(({ metadata }) => metadata?.[PAYMENT] !== undefined)
}

/** All of a customer's list. @throws where it is longer than can be looked through: then nobody can tell that a payment is not in it. */
async function whole<T>(list: { autoPagingToArray(options: { limit: number }): Promise<T[]> }): Promise<T[]> {
  const all = await list.autoPagingToArray({ limit: CUSTOMER_PAYMENTS_MOST })
  if (all.length >= CUSTOMER_PAYMENTS_MOST)
    throw new Error(`a customer has ${CUSTOMER_PAYMENTS_MOST} payments or more in a list of Stripe's`)
  return all
}

const since = (sinceMs: number) => ({ gte: Math.max(Math.floor((sinceMs - SKEW_MS) / 1_000), 0) })

function idOf(reference: string | { readonly id: string } | null): string {
  return typeof reference === 'object' ? (reference?.id ?? '') : reference
}

/** A payment of ours by its metadata; none where it is not ours. */
function listed(
  metadata: Stripe.Metadata | null,
  rest: Omit<ListedPayment, 'paymentId' | 'kind'>,
): readonly ListedPayment[] {
  const paymentId = metadata?.[PAYMENT]
  if (paymentId === undefined) return []
  return [{ paymentId, kind: metadata?.[KIND] === 'auto_pay' ? 'auto_pay' : 'top_up', ...rest }]
}
