/**
 * The ways to pay of an organization that is deleted, with Stripe's official package: they end also where the process that deleted it
 * dies at once, and money that comes all the same is in the books. Time stands still, and each process is a call of this test.
 */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import { makeCustomer } from '../../../test/customer.ts'
import { findImbalances } from '../../billing/charges/store.ts'
import type { Plan } from '../../catalog/plan.ts'
import { systemRandom } from '../../infra/random.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { mendAutoPay } from '../../payments/autoPay/mend.ts'
import { setAutoPay } from '../../payments/autoPay/set.ts'
import { createDeposit } from '../../payments/deposits/deposit/create.ts'
import { createEvmOffers } from '../../payments/deposits/evm/addresses.ts'
import { sweepRoom } from '../../payments/open.ts'
import type { PaymentProvider } from '../../payments/provider/provider.ts'
import { hearing } from '../../payments/reconcile/hearing.ts'
import { openSubscriptionCheckout } from '../../payments/subscriptions/checkout.ts'
import { noPrices } from '../../payments/subscriptions/prices.ts'
import { openTopUp } from '../../payments/topUps/topUp.ts'
import { deleteOrganization } from './deleteOrganization.ts'

const PAGES = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no', keep: async () => [] }

let house: AutoPayHouse
let plan: Plan
beforeAll(async () => {
  house = await openAutoPayHouse()
  const quota = { inputTokens: 1_000, outputTokens: 1_000, weeklyTokens: 1_000, backstopMicrocents: 0n }
  plan = { key: 'small', name: 'Small', graceMs: 0, quota, paymentPrice: house.stripe.makePrice(2_000) }
}, 60_000)
afterAll(() => house.close())
beforeEach(() => house.clock.turn(HOUR_MS))

/** Parts of another process; `dressed` stands in for parts of its payment provider. */
const process = (dressed: Partial<PaymentProvider> = {}) => ({
  ...house.dependencies(),
  provider: { ...house.provider, ...dressed },
  onMethodSaved: mendAutoPay(house.clock),
  plans: () => [plan],
})

const customer = async () => (await makeCustomer(house.database(), { cents: 0 }, house.clock)).organizationId

/** Deletes it as a process does that dies right after its commit: it does nothing more. */
async function remove(organizationId: string, paymentProvider: 'stripe' | 'local' | null = 'stripe') {
  const [row] = await rows<{ name: string }>('select name from organizations where id = $1', organizationId)
  return deleteOrganization(
    {
      database: house.database(),
      clock: house.clock,
      random: systemRandom(),
      paymentProvider,
      lowBalanceMicrocents: 0n,
      wakeJobs: () => {},
    },
    { organizationId, typedName: row?.name ?? '', actor: { kind: 'operator', id: null, address: null }, ownerId: null },
  )
}

/** Another process sweeps. */
const sweep = (dressed: Partial<PaymentProvider> = {}) => sweepRoom(process(dressed), house.clock.now(), () => false)

/** Another process hears of a checkout or a subscription. */
const hear = (id: string) => hearing(process())[id.startsWith('cs_') ? 'checkout' : 'subscription'](id)

const rows = <Row>(text: string, organizationId: string) => house.database().query<Row>(text, [organizationId])
const statusOf = (id: string) => house.stripe.find(id)['status']
const refunds = () => house.stripe.all('refund').length

async function topUp(organizationId: string, savesMethod = false): Promise<string> {
  const { checkout } = await openTopUp(process(), { ...PAGES, organizationId, amountCents: 1_500, savesMethod })
  return checkout ?? ''
}

async function planCheckout(organizationId: string): Promise<string> {
  const dependencies = { ...process(), readPrice: noPrices }
  const { checkout } = await openSubscriptionCheckout(dependencies, { ...PAGES, organizationId, planKey: 'small' })
  return checkout.id
}

async function subscribed(organizationId: string): Promise<string> {
  const session = await planCheckout(organizationId)
  house.stripe.pay(session)
  const subscription = house.stripe.subscriptionOf(session)
  await hear(subscription)
  return subscription
}

test('a subscription is cancelled at Stripe by another process, at once and without a refund, and is looked at no more', async () => {
  const id = await customer()
  const subscription = await subscribed(id)
  expect(await remove(id)).toMatchObject({ ok: true, value: { ended: { subscriptions: 1 } } })
  expect(statusOf(subscription)).toBe('active')
  const before = refunds()
  await sweep()
  expect([statusOf(subscription), refunds()]).toEqual(['canceled', before])
  const ended = 'select status, due_at from payment_subscriptions where organization_id = $1'
  expect(await rows(ended, id)).toEqual([{ status: 'canceled', due_at: null }])
  expect(await rows('select status from subscriptions where organization_id = $1', id)).toEqual([
    { status: 'canceled' },
  ])
  const asked = house.stripe.asked.length
  await house.clock.turn(DAY_MS)
  await sweep()
  expect(house.stripe.asked.slice(asked).filter(({ path }) => path.includes(subscription))).toEqual([])
})

test('while Stripe does not cancel it, it is tried again every ten minutes, and by others where a process dies in between', async () => {
  const id = await customer()
  const subscription = await subscribed(id)
  // Stripe's list has events of how it began. They are heard now, so that the tries below are those of the looks alone.
  await sweep()
  await remove(id)
  let tries = 0
  const cancelSubscription = () => {
    tries += 1
    return Promise.reject(new Error('away'))
  }
  for (let looks = 1; looks <= 5; looks += 1) {
    await sweep({ cancelSubscription })
    expect([tries, statusOf(subscription)]).toEqual([looks, 'active'])
    await sweep({ cancelSubscription })
    expect(tries).toBe(looks)
    await house.clock.turn(10 * MINUTE_MS)
  }
  // A process that dies before Stripe has heard of it, and one that dies before it could write the answer down.
  for (const moment of ['before', 'after'] as const) {
    const dies = Promise.withResolvers<void>()
    void sweep({
      cancelSubscription: async (asked) => {
        if (moment === 'after') await house.provider.cancelSubscription(asked)
        dies.resolve()
        await new Promise(() => {})
      },
    })
    await dies.promise
    expect(statusOf(subscription)).toBe(moment === 'after' ? 'canceled' : 'active')
    await house.clock.turn(10 * MINUTE_MS)
  }
  await sweep()
  expect(await rows('select status, due_at from payment_subscriptions where organization_id = $1', id)).toEqual([
    { status: 'canceled', due_at: null },
  ])
})

test('open checkouts are ended at Stripe, and cost nothing', async () => {
  const id = await customer()
  const [paying, subscribing] = [await topUp(id), await planCheckout(id)]
  await remove(id)
  await sweep()
  expect([statusOf(paying), statusOf(subscribing)]).toEqual(['expired', 'expired'])
  expect(await rows('select state, checkout_url from payments where organization_id = $1', id)).toMatchObject([
    { state: 'expired' },
  ])
  expect(await house.balance(id)).toBe(0)
})

test('a top-up that is paid all the same is credited once, the log tells the operator, and its card is not kept', async () => {
  const id = await customer()
  const session = await topUp(id, true)
  // Declines had switched it off: a saved card would switch it on again.
  await rows(
    `insert into auto_pay (organization_id, is_enabled, threshold_cents, amount_cents, attempts_a_day, is_suspended)
     values ($1, false, 1000, 2500, 3, true)`,
    id,
  )
  await remove(id)
  house.stripe.pay(session)
  for (let times = 0; times < 2; times += 1) await hear(session)
  await sweep()
  expect(await house.balance(id)).toBe(1_500)
  expect(await rows('select kind, amount_microcents from ledger_entries where organization_id = $1', id)).toEqual([
    { kind: 'credit', amount_microcents: 1_500_000_000n },
  ])
  expect(house.logs.filter((line) => line.includes('a payment of a deleted organization'))).toHaveLength(1)
  expect(await rows('select is_enabled, is_suspended from auto_pay where organization_id = $1', id)).toEqual([
    { is_enabled: false, is_suspended: false },
  ])
  const { customer: payer } = house.stripe.find(session)
  expect(house.stripe.find(String(payer))['invoice_settings']).toEqual({ default_payment_method: null })
  expect(await rows('select state, receipt_url from payments where organization_id = $1', id)).toEqual([
    { state: 'paid', receipt_url: null },
  ])
  expect(await findImbalances(house.database())).toEqual([])
})

test('a subscription that begins all the same is cancelled and refunded', async () => {
  const id = await customer()
  const session = await planCheckout(id)
  await remove(id)
  house.stripe.pay(session)
  const subscription = house.stripe.subscriptionOf(session)
  const before = refunds()
  await hear(subscription)
  await sweep()
  expect([statusOf(subscription), refunds()]).toEqual(['canceled', before + 1])
})

test('a subscription that could not be cancelled keeps the organization from being deleted, and nothing changes', async () => {
  const id = await customer()
  const subscription = await subscribed(id)
  const state = async () => {
    const tables = [
      'organizations o where o.id',
      'api_keys o where organization_id',
      'payment_subscriptions o where organization_id',
    ]
    const all = await Promise.all(tables.map((from) => rows(`select o::text as row from ${from} = $1`, id)))
    return JSON.stringify(all)
  }
  const before = await state()
  for (const provider of [null, 'local'] as const) {
    const refused = await remove(id, provider)
    expect(refused).toMatchObject({ ok: false, refusal: { code: 'validation_failed' } })
    if (!refused.ok) expect(refused.refusal.message).toContain('"stripe", which can\'t be cancelled from here')
  }
  expect(await state()).toBe(before)
  expect(statusOf(subscription)).toBe('active')
  expect(await remove(id)).toMatchObject({ ok: true })
})

test.each([
  ['openCheckout', 'payments'],
  ['openSubscriptionCheckout', 'subscription_checkouts'],
] as const)('a checkout that is being opened meanwhile is given to nobody: %s', async (open, table) => {
  const id = await customer()
  const dependencies = process({
    [open]: async (wanted: never) => {
      const opened = await house.provider[open](wanted)
      expect(await remove(id)).toMatchObject({ ok: true })
      return opened
    },
  })
  const opening =
    open === 'openCheckout'
      ? openTopUp(dependencies, { ...PAGES, organizationId: id, amountCents: 1_500, savesMethod: false })
      : openSubscriptionCheckout(
          { ...dependencies, readPrice: noPrices },
          { ...PAGES, organizationId: id, planKey: null },
        )
  await expect(opening).rejects.toMatchObject({ refusal: { code: 'payment-source-unavailable' } })
  expect(await rows(`select state from ${table} where organization_id = $1`, id)).toEqual([{ state: 'failed' }])
})

test.each([['a top-up', topUp] as const, ['a subscription', planCheckout] as const])(
  'a checkout for %s that is asked for just after it is refused before Stripe is asked',
  async (_name, open) => {
    const id = await customer()
    await remove(id)
    const before = house.stripe.all('checkout.session').length
    await expect(open(id)).rejects.toMatchObject({ refusal: { code: 'not_found' } })
    expect(house.stripe.all('checkout.session').length).toBe(before)
  },
)

test('its deposits expire at once and are watched as before, and no new one is given an address', async () => {
  const id = await customer()
  const deposit = () =>
    createDeposit(
      {
        ...process(),
        addressesOf: () =>
          createEvmOffers({ fingerprint: 'x', at: () => `0x${crypto.randomUUID()}` }, process().random),
        settings: { minDepositCents: 500, perDayMost: 100, openMost: 10, expiresMs: HOUR_MS },
        isAvailable: async () => true,
      },
      { organizationId: id, chain: 'ethereum', asset: 'usdc', amountCents: 1_000, keep: async () => [] },
    )
  const { watchedUntilMs } = await deposit()
  const nowMs = house.clock.now()
  expect(await remove(id)).toMatchObject({ ok: true })
  expect(await rows('select status, expires_at, watched_until from deposits where organization_id = $1', id)).toEqual([
    { status: 'created', expires_at: new Date(nowMs), watched_until: new Date(watchedUntilMs) },
  ])
  await expect(deposit()).rejects.toMatchObject({ refusal: { code: 'not-found' } })
})

test('a payment by auto-pay that is being made meanwhile is credited once, and none follows', async () => {
  const id = await house.customer({ cents: 100 })
  const payOffSession: PaymentProvider['payOffSession'] = async (wanted) => {
    const facts = await house.provider.payOffSession(wanted)
    expect(await remove(id)).toMatchObject({ ok: true })
    return facts
  }
  await house.look({ provider: { ...house.provider, payOffSession } })
  for (let looks = 0; looks < 3; looks += 1) {
    await house.clock.turn(HOUR_MS)
    await house.look()
  }
  expect([await house.credited(id), (await house.tried(id)).length]).toEqual([[AMOUNT_CENTS], 1])
  // It pays nothing more, whatever is taken from the balance, and can't be switched on again.
  await house.take(id, 2_600)
  await house.look()
  expect((await house.tried(id)).length).toBe(1)
  const wanted = { isEnabled: true, thresholdCents: 500, amountCents: 2_000, attemptsADay: 3 }
  const setting = setAutoPay({ ...process(), wake: () => {} }, id, wanted)
  await expect(setting).rejects.toMatchObject({ refusal: { code: 'not_found' } })
})
