/** Processes that die at any step of auto-pay, and backups that are restored: never two payments, never a credit lost. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { refuse } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import { freezeOrganization, unfreezeOrganization } from '../freezes/freezes.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { compareWindow } from '../reconcile/compare.ts'
import { createAutoPayRunner } from './runner.ts'

type Moment = 'before' | 'after'

const OFF = { isEnabled: false, thresholdCents: undefined, amountCents: undefined, attemptsADay: undefined }

/** More steps than one payment has. */
const STEPS_MOST = 30

/**
 * Lets a process look, which dies before or after its step `at`: a transaction, or something that it asks of the payment provider.
 * Nothing of it goes on then. Returns whether it came so far.
 */
async function lookDying(house: AutoPayHouse, at: number, moment: Moment): Promise<boolean> {
  let step = 0
  let die = () => {}
  const died = new Promise<true>((resolve) => {
    die = () => resolve(true)
  })
  const mortal =
    <A extends unknown[], R>(work: (...parameters: A) => Promise<R>) =>
    async (...parameters: A): Promise<R> => {
      step += 1
      const isLast = step === at
      if (!isLast || moment === 'after') {
        const result = await work(...parameters)
        if (!isLast) return result
      }
      die()
      return new Promise(() => {})
    }
  const { provider } = house
  const dressed: PaymentProvider = {
    ...provider,
    savedMethod: mortal(provider.savedMethod),
    payOffSession: mortal(provider.payOffSession),
    listPayments: mortal(provider.listPayments),
  }
  const database = house.database()
  const transaction = mortal(database.transaction.bind(database)) as Database['transaction']
  const { openLink } = house.dependencies()
  const dependencies = house.dependencies({
    provider: dressed,
    database: { ...database, query: database.query.bind(database), transaction },
    openLink: mortal(openLink),
  })
  const ended = createAutoPayRunner(dependencies).run()
  return Promise.race([died, ended.then(() => false)])
}

/** Goes on after a death: the lease ends, and another process looks, `laterMs` milliseconds later. */
async function recover(house: AutoPayHouse, laterMs: number): Promise<void> {
  await house.clock.turn(laterMs)
  await house.look()
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
}

describe.each([false, true])('with tax: %p', (automaticTax) => {
  let house: AutoPayHouse
  beforeAll(async () => {
    house = await openAutoPayHouse({ automaticTax })
  })
  afterAll(() => house.close())
  beforeEach(() => house.clock.turn(DAY_MS))

  const openInvoices = () => house.stripe.all('invoice').filter(({ status }) => status === 'open')

  test.each([
    ['before', 5 * MINUTE_MS],
    ['after', 5 * MINUTE_MS],
    ['before', 25 * HOUR_MS],
    ['after', 25 * HOUR_MS],
  ] as const)('killed %s each step and looked at %p ms later: one payment, credited once', async (moment, laterMs) => {
    let at = 1
    for (; at < STEPS_MOST; at += 1) {
      const id = await house.customer({ cents: 100 })
      const isDead = await lookDying(house, at, moment)
      await recover(house, laterMs)
      expect([at, await house.paid(id), await house.credited(id)]).toEqual([
        at,
        [expect.objectContaining({ amount: automaticTax ? 2_975 : AMOUNT_CENTS })],
        [AMOUNT_CENTS],
      ])
      if (!isDead) break
    }
    expect(at).toBeGreaterThan(5)
    expect(at).toBeLessThan(STEPS_MOST)
    expect(openInvoices()).toEqual([])
  })

  test.each([
    ['before', 'authenticates'],
    ['after', 'authenticates'],
    ['before', 'asks'],
    ['after', 'asks'],
  ] as const)(
    'killed %s each step of a payment whose bank asks for the person (%s): tried once, told of once',
    async (moment, later) => {
      for (let at = 1; at < STEPS_MOST; at += 1) {
        const id = await house.customer({ cents: 100, later })
        const isDead = await lookDying(house, at, moment)
        await recover(house, 5 * MINUTE_MS)
        const tried = (await house.tried(id)).length
        const notices = await house
          .database()
          .query(`select 1 from notices where organization_id = $1::uuid and kind = 'auto_pay_authentication'`, [id])
        expect([at, tried, notices.length]).toEqual([at, 1, 1])
        expect((await house.shown(id)).agreement?.declines).toBe(1)
        await house.set(id, OFF)
        if (!isDead) break
      }
      expect(openInvoices()).toEqual([])
    },
  )

  test('an invoice that its customer pays after a decline is credited, once', async () => {
    const id = await house.customer({ cents: 100, later: 'overtakes' })
    await house.look()
    await recover(house, 5 * MINUTE_MS)
    expect(await house.credited(id)).toEqual(automaticTax ? [AMOUNT_CENTS] : [])
    expect((await house.shown(id)).agreement?.declines).toBe(automaticTax ? 0 : 1)
    await house.set(id, OFF)
    expect(openInvoices()).toEqual([])
  })

  test('an answer of Stripe that is lost on the way is found out, and no second payment is made', async () => {
    const id = await house.customer({ cents: 100 })
    const lossy: PaymentProvider = {
      ...house.provider,
      async payOffSession(wanted) {
        await house.provider.payOffSession(wanted)
        return refuse('payment-source-unavailable', 'no answer')
      },
    }
    await house.look({ provider: lossy })
    expect(await house.credited(id)).toEqual([])
    await recover(house, 5 * MINUTE_MS)
    expect(await house.paid(id)).toHaveLength(1)
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  })

  test('a process that stood still while another paid changes nothing', async () => {
    const id = await house.customer({ cents: 100 })
    const { promise: stillness, resolve: goOn } = Promise.withResolvers<void>()
    const { promise: standing, resolve: stands } = Promise.withResolvers<void>()
    const still: PaymentProvider = {
      ...house.provider,
      async payOffSession(wanted) {
        stands()
        await stillness
        return house.provider.payOffSession(wanted)
      },
    }
    const late = createAutoPayRunner(house.dependencies({ provider: still })).run()
    await standing
    await recover(house, 5 * MINUTE_MS)
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
    goOn()
    await late
    expect(await house.paid(id)).toHaveLength(1)
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
  })

  test('after a restored backup the payments of the lost day are credited, and none is made twice', async () => {
    const once = await house.customer({ cents: 1_500 })
    const thrice = await house.customer({ cents: 1_500 })
    const restore = await house.backup()
    await house.clock.turn(HOUR_MS)
    await house.take(once, 600)
    await house.take(thrice, 6_000)
    await house.look()
    await house.clock.turn(DAY_MS)
    await restore()
    expect(await house.credited(once)).toEqual([])
    await house.take(once, 600)
    await house.take(thrice, 6_000)
    await house.look()
    expect(await house.credited(once)).toEqual([AMOUNT_CENTS])
    expect(await house.paid(once)).toHaveLength(1)
    expect(await house.credited(thrice)).toEqual([AMOUNT_CENTS, AMOUNT_CENTS, AMOUNT_CENTS])
    expect(await house.paid(thrice)).toHaveLength(3)
    expect(await house.balance(thrice)).toBe(1_500 - 6_000 + 3 * AMOUNT_CENTS)
  })

  test('a backup that was made in the middle of a payment is no reason for another', async () => {
    const ids: string[] = []
    for (const moment of ['before', 'after'] as const) {
      for (let at = 1; at <= 6; at += 1) {
        const id = await house.customer({ cents: 100 })
        await lookDying(house, at, moment)
        ids.push(id)
      }
    }
    const restore = await house.backup()
    await recover(house, 5 * MINUTE_MS)
    await house.clock.turn(DAY_MS)
    await restore()
    await recover(house, 5 * MINUTE_MS)
    for (const id of ids) {
      expect(await house.paid(id)).toHaveLength(1)
      expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
    }
  })

  test('what a restored backup has lost is credited by the reconciliation too, before the balance is low', async () => {
    const id = await house.customer({ cents: 1_500 })
    const restore = await house.backup()
    await house.clock.turn(HOUR_MS)
    await house.take(id, 600)
    await house.look()
    await restore()
    expect(await house.credited(id)).toEqual([])
    const window = { fromMs: house.clock.now() - DAY_MS, untilMs: house.clock.now() + HOUR_MS }
    const dependencies = { ...house.dependencies(), plans: () => [] }
    const kinds: string[] = []
    for await (const { kind, organizationId } of compareWindow(dependencies, window)) {
      if (organizationId === id) kinds.push(kind)
    }
    expect(kinds).toEqual(['payment'])
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
    await house.look()
    expect(await house.paid(id)).toHaveLength(1)
  })

  test('a payment that the reconciliation adopts ends the row of declines (B5)', async () => {
    const id = await house.customer({ cents: 100, later: 'declines' })
    const [method] = house.stripe.all('payment_method').slice(-1)
    await house.look()
    await house.clock.turn(HOUR_MS)
    await house.look()
    expect((await house.shown(id)).agreement).toMatchObject({ declines: 2, failure: expect.anything() })
    house.stripe.change(method?.id ?? '', { behaviour: 'succeeds' })
    await house.clock.turn(6 * HOUR_MS)
    const payOffSession: PaymentProvider['payOffSession'] = async (wanted) => {
      await house.provider.payOffSession(wanted)
      return refuse('payment-source-unavailable', 'no answer')
    }
    await house.look({ provider: { ...house.provider, payOffSession } })
    const window = { fromMs: house.clock.now() - HOUR_MS, untilMs: house.clock.now() + HOUR_MS }
    const dependencies = { ...house.dependencies(), plans: () => [] }
    await Array.fromAsync(compareWindow(dependencies, window))
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
    await house.clock.turn(5 * MINUTE_MS)
    await house.look()
    expect((await house.shown(id)).agreement).toMatchObject({ declines: 0, failure: null })
  })

  test('a failure stays where the payment that is adopted was begun before it', async () => {
    const id = await house.customer({ cents: 100 })
    const { promise: paid, resolve: goOn } = Promise.withResolvers<void>()
    const payOffSession: PaymentProvider['payOffSession'] = async (wanted) => {
      await house.provider.payOffSession(wanted)
      goOn()
      return { state: 'declined', reason: 'A wrong answer.' }
    }
    await house.look({ provider: { ...house.provider, payOffSession } })
    await paid
    const window = { fromMs: house.clock.now() - HOUR_MS, untilMs: house.clock.now() + HOUR_MS }
    await Array.fromAsync(compareWindow({ ...house.dependencies(), plans: () => [] }, window))
    expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
    expect((await house.shown(id)).agreement?.declines).toBe(1)
  })

  test('a frozen organization pays nothing, and pays once it is not (B11)', async () => {
    const id = await house.customer({ cents: 100, agrees: { isEnabled: false } })
    const freeze = { reason: 'operator', cause: '', note: null, frozenAtMs: house.clock.now() } as const
    await freezeOrganization(house.database(), id, freeze)
    await house.set(id, { ...OFF, isEnabled: true })
    await house.look()
    expect(await house.tried(id)).toEqual([])
    await unfreezeOrganization(house.database(), id, 'operator')
    await house.clock.turn(10 * MINUTE_MS)
    await house.look()
    expect(await house.paid(id)).toHaveLength(1)
  })

  test('a payment that auto-pay can not credit holds it back, and the operator is told', async () => {
    const id = await house.customer({ cents: 1_500 })
    const restore = await house.backup()
    await house.clock.turn(HOUR_MS)
    await house.saveMethod(id, 'succeeds')
    await restore()
    await house.take(id, 600)
    await house.look()
    await house.clock.turn(HOUR_MS)
    await house.look()
    expect(await house.paid(id)).toEqual([])
    expect(house.logs.join('\n')).toContain('run \\"tollgate payments reconcile\\"')
  })
})
