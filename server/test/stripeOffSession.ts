/** The part of the server that stands in for Stripe which is about saved payment methods: customers, PaymentIntents and invoices. */

import { answeredOk, type StripeAnswer, type StripeFields, type StripeObject, stripeSection } from './stripeObjects.ts'

/**
 * How a saved payment method answers when nobody is present. `authenticates`: it declines, as its bank asks for the person. `asks`,
 * `asks_invalid`: the payment waits for the person; an invoice answers with an error of the type `card_error` or `invalid_request_error`.
 * `overtakes`: it declines, and its customer pays the invoice on Stripe's page just before it would be made void.
 */
export type SavedMethodBehaviour =
  | 'succeeds'
  | 'declines'
  | 'authenticates'
  | 'asks'
  | 'asks_invalid'
  | 'delayed'
  | 'overtakes'

/** The objects, as the server keeps them. */
export interface StripeShelf {
  get(id: string): StripeObject | undefined
  all(object: string): StripeObject[]
  make(prefix: string, object: string, body: Record<string, unknown>): StripeObject
  nowMs(): number
}

/** Tax on invoices, of a hundred. */
const TAX_PERCENT = 19

/** Carries out a request about these objects; null: it is about others. */
export function answerOffSession(
  shelf: StripeShelf,
  method: string,
  path: string,
  fields: StripeFields,
): StripeAnswer | null {
  const [, , resource = '', id = '', verb = ''] = path.split('/')
  if (resource === 'customers' && id !== '' && method === 'POST') return updateCustomer(shelf, id, fields)
  if (resource === 'payment_intents' && id === '')
    return method === 'POST' ? createIntent(shelf, fields) : listOf(shelf, 'payment_intent', fields)
  if (resource === 'payment_intents' && method === 'GET') return found(shelf, id, intentToWire)
  if (resource === 'invoiceitems' && method === 'POST') return addItem(shelf, fields)
  if (resource !== 'invoices') return null
  if (id === '') return method === 'POST' ? createInvoice(shelf, fields) : listOf(shelf, 'invoice', fields)
  if (method === 'GET') return found(shelf, id, (_, invoice) => invoice)
  return changeInvoice(shelf, id, method === 'DELETE' ? 'delete' : verb, fields)
}

/** A customer pays with a payment method and agrees that it is kept. */
export function saveStripeMethod(
  shelf: Pick<StripeShelf, 'make'>,
  customer: string,
  behaviour: SavedMethodBehaviour,
): string {
  return shelf.make('pm', 'payment_method', { customer, behaviour }).id
}

const MISSING: StripeAnswer = {
  status: 404,
  json: { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'No such object' } },
}

function invalid(message: string): StripeAnswer {
  return { status: 400, json: { error: { type: 'invalid_request_error', message } } }
}

function found(
  shelf: StripeShelf,
  id: string,
  toWire: (shelf: StripeShelf, found: StripeObject) => object,
): StripeAnswer {
  const object = shelf.get(id)
  return object === undefined ? MISSING : answeredOk(toWire(shelf, object))
}

function updateCustomer(shelf: StripeShelf, id: string, fields: StripeFields): StripeAnswer {
  const customer = shelf.get(id)
  const method = fields.get('invoice_settings[default_payment_method]')
  if (customer === undefined) return MISSING
  if (method === undefined || shelf.get(method)?.['customer'] !== id) return invalid('no such payment method')
  return answeredOk(Object.assign(customer, { invoice_settings: { default_payment_method: method } }))
}

function intentToWire(shelf: StripeShelf, intent: StripeObject): object {
  return { ...intent, latest_charge: shelf.get(String(intent['latest_charge'])) ?? null }
}

function createIntent(shelf: StripeShelf, fields: StripeFields): StripeAnswer {
  const method = shelf.get(fields.get('payment_method') ?? '')
  const isConfirmed = fields.get('confirm') === 'true' && fields.get('off_session') === 'true'
  if (method === undefined || method['customer'] !== fields.get('customer') || !isConfirmed) return invalid('method')
  return pay(shelf, method, {
    amount: Number(fields.get('amount')),
    customer: fields.get('customer'),
    metadata: stripeSection(fields, 'metadata'),
  })
}

/** Makes a PaymentIntent and confirms it, as its payment method behaves. */
function pay(shelf: StripeShelf, method: StripeObject, body: Record<string, unknown>): StripeAnswer {
  const created = Math.floor(shelf.nowMs() / 1_000)
  const intent = shelf.make('pi', 'payment_intent', { ...body, currency: 'usd', created, last_payment_error: null })
  const behaviour = method['behaviour'] as SavedMethodBehaviour
  if (behaviour === 'succeeds') return answeredOk(intentToWire(shelf, succeed(shelf, intent)))
  Object.assign(intent, { status: 'processing', latest_charge: null })
  if (behaviour === 'delayed') return answeredOk(intentToWire(shelf, intent))
  if (isAsking(method)) return answeredOk(intentToWire(shelf, Object.assign(intent, { status: 'requires_action' })))
  const declined = { type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds' }
  const asked = { type: 'card_error', code: 'authentication_required', decline_code: 'authentication_required' }
  const error = behaviour === 'authenticates' ? asked : declined
  Object.assign(intent, { status: 'requires_payment_method', last_payment_error: error })
  const message = 'secret words of Stripe'
  return { status: 402, json: { error: { ...error, message, payment_intent: intentToWire(shelf, intent) } } }
}

function isAsking(method: StripeObject): boolean {
  return method['behaviour'] === 'asks' || method['behaviour'] === 'asks_invalid'
}

/** The error that an invoice answers with while its PaymentIntent waits for the person. */
function asking(method: StripeObject): StripeAnswer {
  const isInvalid = method['behaviour'] === 'asks_invalid'
  const type = isInvalid ? 'invalid_request_error' : 'card_error'
  const error = { type, code: 'invoice_payment_intent_requires_action', message: 'secret words of Stripe' }
  return { status: isInvalid ? 400 : 402, json: { error } }
}

function succeed(shelf: StripeShelf, intent: StripeObject): StripeObject {
  const charge = shelf.make('ch', 'charge', { receipt_url: `https://pay.stripe.test/receipts/${intent.id}` })
  return Object.assign(intent, { status: 'succeeded', latest_charge: charge.id, last_payment_error: null })
}

function listOf(shelf: StripeShelf, object: string, fields: StripeFields): StripeAnswer {
  const since = Number(fields.get('created[gte]') ?? 0)
  const customer = fields.get('customer')
  const until = Number(fields.get('created[lt]') ?? Number.POSITIVE_INFINITY)
  const mine = shelf.all(object).filter((each) => customer === undefined || each['customer'] === customer)
  const recent = mine.filter(({ created }) => Number(created) >= since && Number(created) < until).reverse()
  const start = recent.findIndex(({ id }) => id === fields.get('starting_after')) + 1
  const page = recent.slice(start, start + Number(fields.get('limit') ?? 10))
  const data = page.map((each) => (object === 'payment_intent' ? intentToWire(shelf, each) : each))
  return answeredOk({ object: 'list', data, has_more: start + page.length < recent.length, url: '/v1/list' })
}

function createInvoice(shelf: StripeShelf, fields: StripeFields): StripeAnswer {
  if (fields.get('auto_advance') !== 'false') return invalid('Stripe would try payments by itself')
  const invoice = shelf.make('in', 'invoice', {
    customer: fields.get('customer'),
    default_payment_method: fields.get('default_payment_method'),
    created: Math.floor(shelf.nowMs() / 1_000),
    status: 'draft',
    lines: { object: 'list', data: [] },
    subtotal: 0,
    total: 0,
    total_excluding_tax: 0,
    automatic_tax: { enabled: fields.get('automatic_tax[enabled]') === 'true' },
    // Stripe takes the discount of the customer, unless it is told of none.
    percent_off: fields.get('discounts') === '' ? 0 : (shelf.get(fields.get('customer') ?? '')?.['percent_off'] ?? 0),
    metadata: stripeSection(fields, 'metadata'),
  })
  invoice['hosted_invoice_url'] = `https://invoice.stripe.test/i/${invoice.id}`
  return answeredOk(invoice)
}

function addItem(shelf: StripeShelf, fields: StripeFields): StripeAnswer {
  const invoice = shelf.get(fields.get('invoice') ?? '')
  if (invoice === undefined || invoice['status'] !== 'draft') return invalid('only a draft takes items')
  const amount = Number(fields.get('amount'))
  const lines = (invoice['lines'] as { data: object[] }).data
  lines.push({ amount })
  const tax = fields.get('tax_behavior') === 'exclusive' ? Math.ceil((amount * TAX_PERCENT) / 100) : 0
  const subtotal = Number(invoice['subtotal']) + amount
  const left = 1 - Number(invoice['percent_off']) / 100
  Object.assign(invoice, { subtotal, total_excluding_tax: subtotal * left, total: (subtotal + tax) * left })
  return answeredOk(shelf.make('ii', 'invoiceitem', { invoice: invoice.id, amount }))
}

function changeInvoice(shelf: StripeShelf, id: string, verb: string, fields: StripeFields): StripeAnswer {
  const invoice = shelf.get(id)
  if (invoice === undefined) return MISSING
  const status = invoice['status']
  if (verb === 'finalize' && status === 'draft') return answeredOk(finalize(shelf, invoice))
  if (verb === 'void' && status === 'open') return makeVoid(shelf, invoice)
  if (verb === 'pay' && status === 'open') return payInvoice(shelf, invoice, fields)
  if (verb === 'delete' && status === 'draft') {
    Object.assign(invoice, { object: 'deleted_invoice' })
    return answeredOk({ id, object: 'invoice', deleted: true })
  }
  if (verb !== '') return invalid(`an invoice that is ${status} takes no ${verb}`)
  const metadata = { ...(invoice['metadata'] as object), ...stripeSection(fields, 'metadata') }
  return answeredOk(Object.assign(invoice, { metadata }))
}

/** The customer's balance pays first: below 0 it is the customer's. */
function finalize(shelf: StripeShelf, invoice: StripeObject): StripeObject {
  const total = Number(invoice['total'])
  const balance = Number(shelf.get(String(invoice['customer']))?.['balance'] ?? 0)
  const amountDue = Math.max(total + balance, 0)
  return Object.assign(invoice, { status: amountDue === 0 ? 'paid' : 'open', amount_due: amountDue, amount_paid: 0 })
}

/** Stripe cancels the PaymentIntents of an invoice that it makes void, and they show no error any more. */
function makeVoid(shelf: StripeShelf, invoice: StripeObject): StripeAnswer {
  if (shelf.get(String(invoice['default_payment_method']))?.['behaviour'] !== 'overtakes') {
    for (const intent of intentsOf(shelf, invoice))
      Object.assign(intent, { status: 'canceled', last_payment_error: null })
    return answeredOk(Object.assign(invoice, { status: 'void' }))
  }
  for (const intent of intentsOf(shelf, invoice)) succeed(shelf, intent)
  Object.assign(invoice, { status: 'paid', amount_paid: invoice['amount_due'] })
  return invalid('an invoice that is paid takes no void')
}

function intentsOf(shelf: StripeShelf, { id }: StripeObject): StripeObject[] {
  const payments = shelf.all('invoice_payment').filter(({ invoice }) => invoice === id)
  return payments.flatMap(({ payment }) => shelf.get((payment as { payment_intent: string }).payment_intent) ?? [])
}

function payInvoice(shelf: StripeShelf, invoice: StripeObject, fields: StripeFields): StripeAnswer {
  const method = shelf.get(fields.get('payment_method') ?? '')
  if (method === undefined) return invalid('method')
  const paid = pay(shelf, method, { amount: invoice['amount_due'], customer: invoice['customer'], metadata: {} })
  const intent = shelf.all('payment_intent').at(-1)
  shelf.make('inpay', 'invoice_payment', {
    invoice: invoice.id,
    status: intent?.['status'] === 'succeeded' ? 'paid' : 'open',
    payment: { type: 'payment_intent', payment_intent: intent?.id },
  })
  if (isAsking(method)) return asking(method)
  if (intent?.['status'] !== 'succeeded') return paid.status === 200 ? answeredOk(invoice) : paid
  return answeredOk(Object.assign(invoice, { status: 'paid', amount_paid: invoice['amount_due'] }))
}
