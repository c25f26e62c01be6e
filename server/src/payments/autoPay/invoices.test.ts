/** Payments by auto-pay with tax are invoices: none stays open that nobody waits for, and each ends as its bank says. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import type { SavedMethodBehaviour } from '../../../test/stripeOffSession.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { compareWindow } from '../reconcile/compare.ts'
import { refundPayment } from '../reversals/refund.ts'
import { endAutoPay } from './end.ts'
import type { AutoPayRequest } from './set.ts'

let house: AutoPayHouse
beforeAll(async () => {
  house = await openAutoPayHouse({ automaticTax: true })
})
afterAll(() => house.close())
/** The organizations of the test. */
const made: string[] = []
beforeEach(async () => {
  await house.clock.turn(DAY_MS)
  await house.look()
})
afterEach(async () => {
  house.stripe.onRequest = () => undefined
  for (const id of made.splice(0)) await house.set(id, OFF)
})

const OFF: AutoPayRequest = {
  isEnabled: false,
  thresholdCents: undefined,
  amountCents: undefined,
  attemptsADay: undefined,
}

const FAILS = { status: 500, json: { error: { type: 'api_error', message: 'secret words of Stripe' } } }

/** An organization whose balance is below the threshold; auto-pay is on unless told. */
async function poor(later: SavedMethodBehaviour = 'succeeds', isEnabled = true): Promise<string> {
  const id = await house.customer({ cents: 100, later, agrees: { isEnabled } })
  made.push(id)
  return id
}

/** Stripe fails at a step of an invoice, such as `pay`, until the test ends. */
function failAt(step: string): void {
  house.stripe.onRequest = ({ method, path }) =>
    method === 'POST' && path.startsWith('/v1/invoices/') && path.endsWith(`/${step}`) ? FAILS : undefined
}

const lastInvoice = () => house.stripe.all('invoice').at(-1)
const unpaidInvoices = () => house.stripe.all('invoice').filter(({ status }) => status === 'open' || status === 'draft')

async function noticesOf(id: string): Promise<string[]> {
  const notices = await house
    .database()
    .query<{ kind: string }>(
      `select kind from notices where organization_id = $1::uuid and kind like 'auto_pay%' order by kind`,
      [id],
    )
  return notices.map(({ kind }) => kind)
}

async function paymentsOf(id: string) {
  return house
    .database()
    .query<{ id: string; state: string; gross: bigint | null }>(
      `select id, state, gross_cents as gross from payments where organization_id = $1::uuid and kind = 'auto_pay'`,
      [id],
    )
}

async function reconcile(): Promise<void> {
  const window = { fromMs: house.clock.now() - HOUR_MS, untilMs: house.clock.now() + HOUR_MS }
  await Array.fromAsync(compareWindow({ ...house.dependencies(), plans: () => [] }, window))
}

const ASKING = ['asks', 'asks_invalid'] as const

test.each<SavedMethodBehaviour>([...ASKING, 'authenticates'])(
  'the organization is told at once where its bank asks for the person: %s (B5)',
  async (later) => {
    const id = await poor(later)
    await house.look()
    expect(await noticesOf(id)).toEqual(['auto_pay_authentication'])
    expect((await house.shown(id)).agreement).toMatchObject({
      declines: 1,
      failure: { reason: 'The bank asks the person who has the card to confirm the payment.' },
    })
    expect(unpaidInvoices()).toEqual([])
    expect(house.logs.join('\n')).not.toContain('secret words')
  },
)

test.each([
  ['card_error', 402],
  ['invalid_request_error', 402],
  ['invalid_request_error', 400],
  ['api_error', 409],
])('the code of the error alone says that a bank asks for the person: %s with status %d', async (type, status) => {
  const id = await poor()
  const error = { type, code: 'invoice_payment_intent_requires_action', message: 'secret words of Stripe' }
  house.stripe.onRequest = ({ path }) => (path.endsWith('/pay') ? { status, json: { error } } : undefined)
  await house.look()
  expect(await noticesOf(id)).toEqual(['auto_pay_authentication'])
  expect((await house.shown(id)).agreement?.declines).toBe(1)
  expect(unpaidInvoices()).toEqual([])
})

test.each(ASKING)(
  'it is told too where the answer was lost, and the reconciliation has ended the invoice meanwhile: %s',
  async (later) => {
    const id = await poor(later)
    const payOffSession: PaymentProvider['payOffSession'] = async (wanted) => {
      // The invoice can't be read once it was tried: nothing is known of it.
      let isPaying = false
      house.stripe.onRequest = ({ path }) => {
        if (path.endsWith('/pay')) isPaying = true
        else if (isPaying) return FAILS
        return undefined
      }
      return house.provider.payOffSession(wanted)
    }
    await house.look({ provider: { ...house.provider, payOffSession } })
    house.stripe.onRequest = () => undefined
    expect(unpaidInvoices()).toHaveLength(1)
    await reconcile()
    expect(unpaidInvoices()).toEqual([])
    await house.clock.turn(5 * MINUTE_MS)
    await house.look()
    expect(await noticesOf(id)).toEqual(['auto_pay_authentication'])
    expect((await house.shown(id)).agreement?.declines).toBe(1)
  },
)

test.each([
  ['pay', 'an admin switches it off', (id: string) => house.set(id, OFF)],
  ['finalize', 'an admin switches it off', (id: string) => house.set(id, OFF)],
  [
    'pay',
    'its organization is deleted',
    (id: string) => house.database().transaction((tx) => endAutoPay(tx, id, house.clock.now())),
  ],
] as const)('an invoice that failed at "%s" does not stay once auto-pay is off: %s', async (step, _, switchOff) => {
  const id = await poor()
  failAt(step)
  await house.look()
  house.stripe.onRequest = () => undefined
  expect(unpaidInvoices()).toHaveLength(1)
  await switchOff(id)
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
  expect(unpaidInvoices()).toEqual([])
  expect(await paymentsOf(id)).toMatchObject([{ state: 'failed' }])
  expect((await house.shown(id)).agreement).toMatchObject({ declines: 0, failure: null })
  expect(await house.credited(id)).toEqual([])
})

test('a payment that was given up by a process which died then is no decline, and another one is made once auto-pay is on', async () => {
  const id = await poor()
  failAt('pay')
  await house.look()
  house.stripe.onRequest = () => undefined
  await house.set(id, OFF)
  await house.clock.turn(5 * MINUTE_MS)
  const giveUp: PaymentProvider['giveUp'] = async (begun) => {
    await house.provider.giveUp(begun)
    throw new Error('The process was killed here.')
  }
  await house.look({ provider: { ...house.provider, giveUp } })
  await house.set(id, { ...OFF, isEnabled: true })
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
  expect((await house.shown(id)).agreement).toMatchObject({ declines: 0, failure: null })
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  expect((await paymentsOf(id)).map(({ state }) => state).sort()).toEqual(['failed', 'paid'])
})

test.each([
  [
    'before auto-pay looks',
    'succeeds',
    () => house.stripe.change(lastInvoice()?.id ?? '', { status: 'paid', amount_paid: lastInvoice()?.['total'] }),
  ],
  ['just before it would be made void', 'overtakes', () => {}],
] as const)('an invoice that its customer pays %s is credited, though auto-pay is off', async (_, later, pay) => {
  const id = await poor(later)
  failAt('pay')
  await house.look()
  house.stripe.onRequest = () => undefined
  await house.set(id, OFF)
  pay()
  for (let looks = 0; looks < 2; looks += 1) {
    await house.clock.turn(5 * MINUTE_MS)
    await house.look()
  }
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  expect(unpaidInvoices()).toEqual([])
})

test('a payment that the balance of the customer at Stripe paid in part is refunded whole, as far as the card paid it', async () => {
  const id = await poor('succeeds', false)
  const [customer] = house.stripe.all('customer').slice(-1)
  house.stripe.change(customer?.id ?? '', { balance: -1_000 })
  await house.set(id, { ...OFF, isEnabled: true })
  await house.look()
  const [payment] = await paymentsOf(id)
  expect(payment).toMatchObject({ state: 'paid', gross: 1_975n })
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  const dependencies = { ...house.dependencies(), plans: () => [] }
  const refunded = await refundPayment(dependencies, { paymentId: payment?.id ?? '', amountCents: null })
  expect(refunded).toMatchObject({ kind: 'refunded' })
  expect(house.stripe.all('refund').map(({ amount }) => amount)).toEqual([1_975])
  expect(await house.balance(id)).toBe(100)
})

test('a payment that the balance of the customer at Stripe paid whole is credited', async () => {
  const id = await poor('succeeds', false)
  const [customer] = house.stripe.all('customer').slice(-1)
  house.stripe.change(customer?.id ?? '', { balance: -9_000 })
  await house.set(id, { ...OFF, isEnabled: true })
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})
