/** Auto-pay: one payment, exactly the agreed amount, whatever is repeated, killed or restored. The judge is Stripe's list. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import { refuse } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { freezeOrganization, unfreezeOrganization } from '../freezes/freezes.ts'
import { refreshReversal } from '../reversals/refresh.ts'
import { openTopUp } from '../topUps/topUp.ts'

let house: AutoPayHouse
beforeAll(async () => {
  house = await openAutoPayHouse()
})
afterAll(() => house.close())
beforeEach(async () => {
  house.stripe.failures = 0
  await house.clock.turn(DAY_MS)
})

test('a balance that falls below the threshold is paid up by exactly the amount, once', async () => {
  const id = await house.customer({ cents: 1_200 })
  await house.look()
  expect(await house.paid(id)).toEqual([])
  await house.take(id, 300)
  await house.look()
  await house.look()
  expect((await house.paid(id)).map(({ amount }) => amount)).toEqual([AMOUNT_CENTS])
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  expect(await house.balance(id)).toBe(900 + AMOUNT_CENTS)
  expect((await house.shown(id)).nextAttemptMs).toBeNull()
})

test('it pays again while the balance is still below the threshold', async () => {
  const id = await house.customer({ cents: 1_000 })
  await house.take(id, 5_000)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS, AMOUNT_CENTS])
  expect(await house.balance(id)).toBe(1_000)
})

test('enabling while the balance is low pays at once', async () => {
  const id = await house.customer({ cents: 100 })
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('a dispute that takes the balance below the threshold is paid up once the organization is not frozen', async () => {
  const id = await house.customer({ cents: 1_200 })
  const [session] = house.stripe.all('checkout.session').slice(-1)
  const dispute = house.stripe.dispute(session?.id ?? '')
  const dependencies = { ...house.dependencies(), plans: () => [] }
  expect(await refreshReversal(dependencies, dispute)).toBe('applied')
  expect(await house.balance(id)).toBe(700)
  await house.look()
  expect(await house.tried(id)).toEqual([])
  await unfreezeOrganization(house.database(), id, 'dispute')
  await house.clock.turn(10 * MINUTE_MS)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('no next attempt is shown while one is under way, from its first question to its outcome, and none where the balance is high', async () => {
  const id = await house.customer({ cents: 100, later: 'declines' })
  expect((await house.shown(id)).nextAttemptMs).toBe(house.clock.now())
  const seen: (number | null)[] = []
  const looking = async <T>(ask: () => Promise<T>): Promise<T> => {
    seen.push((await house.shown(id)).nextAttemptMs)
    return ask()
  }
  const provider: typeof house.provider = {
    ...house.provider,
    listPayments: (customer, sinceMs) => looking(() => house.provider.listPayments(customer, sinceMs)),
    savedMethod: (customer) => looking(() => house.provider.savedMethod(customer)),
    payOffSession: (wanted) => looking(() => house.provider.payOffSession(wanted)),
  }
  await house.look({ provider })
  expect(seen).toEqual([null, null, null])
  expect((await house.shown(id)).nextAttemptMs).toBe(house.clock.now() + HOUR_MS)
  await house.take(id, -5_000)
  expect((await house.shown(id)).nextAttemptMs).toBeNull()
})

test('where it is off nothing is paid', async () => {
  const id = await house.customer({ cents: 100, agrees: { isEnabled: false } })
  await house.take(id, 500)
  await house.look()
  expect(await house.paid(id)).toEqual([])
})

test('fifty processes that see a low balance together make one payment', async () => {
  const id = await house.customer({ cents: 1_200 })
  await house.take(id, 300)
  await Promise.all(Array.from({ length: 50 }, () => house.look()))
  expect(await house.paid(id)).toHaveLength(1)
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('attempts of a UTC day are bounded, and a success counts', async () => {
  const id = await house.customer({ cents: 1_000, agrees: { attemptsADay: 2 } })
  await house.take(id, 10_000)
  await house.look()
  expect(await house.credited(id)).toHaveLength(2)
  const midnightMs = Math.ceil(house.clock.now() / DAY_MS) * DAY_MS
  expect((await house.shown(id)).nextAttemptMs).toBe(midnightMs)
  await house.clock.turn(midnightMs - house.clock.now())
  await house.look()
  expect(await house.credited(id)).toHaveLength(4)
})

test('a decline waits an hour, six hours and a day; then auto-pay is off and the organization is told where to mend it', async () => {
  const id = await house.customer({ cents: 100, later: 'declines' })
  await house.look()
  for (const waitMs of [HOUR_MS, 6 * HOUR_MS, DAY_MS]) {
    const { agreement, nextAttemptMs } = await house.shown(id)
    expect(agreement?.failure?.reason).toBe('The saved card was declined: there is not enough money.')
    expect(nextAttemptMs).toBe(house.clock.now() + waitMs)
    await house.clock.turn(waitMs - 1)
    await house.look()
    expect((await house.shown(id)).nextAttemptMs).toBe(nextAttemptMs)
    await house.clock.turn(1)
    await house.look()
  }
  expect(await house.shown(id)).toMatchObject({
    nextAttemptMs: null,
    agreement: { isEnabled: false, isSuspended: true },
  })
  const notices = await house
    .database()
    .query<{ kind: string; link: string }>(
      `select kind, link from notices where organization_id = $1::uuid and kind like 'auto_pay%'`,
      [id],
    )
  expect(notices).toEqual([{ kind: 'auto_pay_off', link: expect.stringContaining('https://checkout.stripe.test/') }])
  await house.take(id, 100)
  await house.look()
  expect(await house.paid(id)).toEqual([])
  expect(house.logs.join('\n')).not.toContain('secret words')
  // The link mends it: paid there, the payment method is saved, and auto-pay is on.
  await house.saveMethod(id, 'succeeds')
  expect(await house.shown(id)).toMatchObject({ agreement: { isEnabled: true, isSuspended: false, declines: 0 } })
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('a bank that asks for the person is told of at once, once, and auto-pay stays on', async () => {
  const id = await house.customer({ cents: 100, later: 'authenticates' })
  await house.look()
  await house.clock.turn(HOUR_MS)
  await house.look()
  expect(await house.shown(id)).toMatchObject({ agreement: { isEnabled: true, declines: 2, isTold: true } })
  const notices = await house
    .database()
    .query<{ kind: string; link: string }>(
      `select kind from notices where organization_id = $1::uuid and kind like 'auto_pay%'`,
      [id],
    )
  expect(notices).toEqual([{ kind: 'auto_pay_authentication' }] as never)
})

test('money that comes later is waited for, without another payment', async () => {
  const id = await house.customer({ cents: 100, later: 'delayed' })
  await house.look()
  await house.clock.turn(HOUR_MS)
  await house.look()
  const intents = () => house.stripe.all('payment_intent').filter(({ status }) => status === 'processing')
  expect(intents()).toHaveLength(1)
  expect(await house.credited(id)).toEqual([])
  house.stripe.change(intents()[0]?.id ?? '', { status: 'succeeded' })
  await house.clock.turn(HOUR_MS)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('while Stripe fails nothing is paid, and afterwards it is paid once', async () => {
  const id = await house.customer({ cents: 100 })
  house.stripe.failures = 1_000
  await house.look()
  house.stripe.failures = 0
  await house.look()
  expect(await house.paid(id)).toEqual([])
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

const freezeNow = (id: string) =>
  freezeOrganization(house.database(), id, {
    reason: 'operator',
    cause: '',
    note: null,
    frozenAtMs: house.clock.now(),
  })

test('an organization that is frozen while its payment is prepared pays nothing until the freeze ends (B11)', async () => {
  const id = await house.customer({ cents: 100 })
  const savedMethod = async (customer: string) => {
    await freezeNow(id)
    return house.provider.savedMethod(customer)
  }
  await house.look({ provider: { ...house.provider, savedMethod } })
  expect(await house.tried(id)).toEqual([])
  await unfreezeOrganization(house.database(), id, 'operator')
  await house.clock.turn(10 * MINUTE_MS)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('a payment that was written down and never asked for is not asked for while its organization is frozen', async () => {
  const id = await house.customer({ cents: 100 })
  const payOffSession = () => refuse('payment-source-unavailable', 'The process was killed here.')
  await house.look({ provider: { ...house.provider, payOffSession } })
  await freezeNow(id)
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
  expect(await house.tried(id)).toEqual([])
  await unfreezeOrganization(house.database(), id, 'operator')
  await house.clock.turn(10 * MINUTE_MS)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})

test('a payment is not asked for where auto-pay is switched off just before', async () => {
  const id = await house.customer({ cents: 100 })
  const away = () => refuse('payment-source-unavailable', 'The process was killed here.')
  await house.look({ provider: { ...house.provider, payOffSession: away } })
  await house.clock.turn(5 * MINUTE_MS)
  const off = { isEnabled: false, thresholdCents: undefined, amountCents: undefined, attemptsADay: undefined }
  const listPayments = async (customer: string, sinceMs: number) => {
    await house.set(id, off)
    return house.provider.listPayments(customer, sinceMs)
  }
  await house.look({ provider: { ...house.provider, listPayments } })
  expect(await house.tried(id)).toEqual([])
  const rows = await house
    .database()
    .query("select state from payments where organization_id = $1 and kind = 'auto_pay'", [id])
  expect(rows).toEqual([{ state: 'failed' }] as never)
})

test('a new top-up expires the one before, and not the link that was mailed to mend auto-pay', async () => {
  const id = await house.customer({ cents: 100, later: 'authenticates' })
  await house.look()
  const [notice] = await house
    .database()
    .query<{ link: string }>(`select link from notices where organization_id = $1::uuid and link is not null`, [id])
  const mailed = notice?.link.split('/').at(-1) ?? ''
  const urls = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no' }
  const wanted = { organizationId: id, amountCents: 500, savesMethod: false, ...urls, keep: async () => [] }
  const { checkout: older } = await openTopUp(house.dependencies(), wanted)
  await openTopUp(house.dependencies(), wanted)
  expect([mailed, older ?? ''].map((each) => house.stripe.find(each)['status'])).toEqual(['open', 'expired'])
})

test('the link that mends auto-pay is there also where the top-ups of the hour are used up', async () => {
  const id = await house.customer({ cents: 100, later: 'authenticates' })
  const urls = { successUrl: 'https://t.test/done', cancelUrl: 'https://t.test/no' }
  const wanted = { organizationId: id, amountCents: 500, savesMethod: false, ...urls, keep: async () => [] }
  // The first one of the hour has saved the payment method.
  for (let count = 1; count < 30; count += 1) await openTopUp(house.dependencies(), wanted)
  const oneMore = await openTopUp(house.dependencies(), wanted).catch(String)
  expect(oneMore).toContain('30 top-ups within an hour')
  await house.look()
  const links = await house
    .database()
    .query(`select 1 from notices where organization_id = $1::uuid and link is not null`, [id])
  expect(links).toHaveLength(1)
})
