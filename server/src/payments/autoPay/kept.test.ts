/** A change of the terms skips no wait after a decline: the same saved payment method is declined again (B5). */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { AMOUNT_CENTS, type AutoPayHouse, openAutoPayHouse } from '../../../test/autoPayHouse.ts'
import { refuse } from '../../lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import type { AutoPayRequest } from './set.ts'

let house: AutoPayHouse
beforeAll(async () => {
  house = await openAutoPayHouse()
})
afterAll(() => house.close())
beforeEach(() => house.clock.turn(DAY_MS))

const SAME: AutoPayRequest = {
  isEnabled: true,
  thresholdCents: undefined,
  amountCents: undefined,
  attemptsADay: undefined,
}
const OFF: AutoPayRequest = { ...SAME, isEnabled: false }

/** A customer whose saved payment method was declined a moment ago. */
async function declined(): Promise<string> {
  const id = await house.customer({ cents: 100, later: 'declines' })
  await house.look()
  expect(await house.tried(id)).toHaveLength(1)
  return id
}

test.each<[name: string, changes: readonly AutoPayRequest[]]>([
  ['no term', [SAME]],
  ['off and on again', [OFF, SAME]],
  ['another threshold', [{ ...SAME, thresholdCents: 2_000 }]],
  ['another amount', [{ ...SAME, amountCents: 5_000 }]],
  ['more attempts a day', [{ ...SAME, attemptsADay: 9 }]],
])('after a decline the wait stays where a request changes %s', async (_name, changes) => {
  const id = await declined()
  const next = house.clock.now() + HOUR_MS
  await house.clock.turn(MINUTE_MS)
  for (const change of changes) {
    await house.set(id, change)
    await house.look()
  }
  expect(await house.shown(id)).toMatchObject({
    agreement: { declines: 1, failure: expect.anything() },
    nextAttemptMs: next,
  })
  expect(await house.tried(id)).toHaveLength(1)
  await house.clock.turn(HOUR_MS - MINUTE_MS)
  await house.look()
  expect(await house.tried(id)).toHaveLength(2)
  expect(await house.shown(id)).toMatchObject({
    agreement: { declines: 2 },
    nextAttemptMs: house.clock.now() + 6 * HOUR_MS,
  })
})

test('a fourth decline switches auto-pay off however often the terms are sent', async () => {
  const id = await declined()
  for (const waitMs of [HOUR_MS, 6 * HOUR_MS, DAY_MS]) {
    await house.set(id, OFF)
    await house.set(id, SAME)
    await house.clock.turn(waitMs)
    await house.look()
  }
  expect(await house.shown(id)).toMatchObject({ agreement: { isEnabled: false, isSuspended: true, declines: 4 } })
  expect(await house.tried(id)).toHaveLength(4)
})

test('a balance that falls below the threshold within the wait is paid up after it', async () => {
  const id = await declined()
  await house.set(id, { ...SAME, thresholdCents: 50 })
  expect((await house.shown(id)).nextAttemptMs).toBeNull()
  await house.take(id, 60)
  await house.look()
  expect(await house.tried(id)).toHaveLength(1)
  await house.clock.turn(HOUR_MS)
  await house.look()
  expect(await house.tried(id)).toHaveLength(2)
})

test.each<[name: string, changes: readonly AutoPayRequest[]]>([
  ['switched on', [SAME]],
  ['switched off and on', [OFF, SAME]],
])('auto-pay that declines switched off begins anew where it is %s', async (_name, changes) => {
  const id = await declined()
  for (const waitMs of [HOUR_MS, 6 * HOUR_MS, DAY_MS]) {
    await house.clock.turn(waitMs)
    await house.look()
  }
  expect((await house.shown(id)).agreement).toMatchObject({ isEnabled: false, isSuspended: true })
  await house.clock.turn(DAY_MS)
  for (const change of changes) await house.set(id, change)
  expect(await house.shown(id)).toMatchObject({
    agreement: { declines: 0, failure: null },
    nextAttemptMs: house.clock.now(),
  })
  await house.look()
  expect(await house.tried(id)).toHaveLength(5)
})

test('another saved payment method begins anew: by a checkout at once, by other ways when the terms are sent', async () => {
  const [byCheckout, elsewhere] = [await declined(), await declined()]
  await house.saveMethod(byCheckout, 'succeeds')
  await house.look()
  expect(await house.credited(byCheckout)).toEqual([AMOUNT_CENTS])
  const savedMethod = (customer: string) => house.provider.savedMethod(customer).then((method) => `${method}_other`)
  await house.set(elsewhere, SAME, { ...house.provider, savedMethod })
  expect(await house.shown(elsewhere)).toMatchObject({
    agreement: { declines: 0, failure: null },
    nextAttemptMs: house.clock.now(),
  })
})

test('a payment that was given up because auto-pay was switched off is no decline', async () => {
  const id = await house.customer({ cents: 100 })
  const payOffSession = () => refuse('payment-source-unavailable', 'The process was killed here.')
  await house.look({ provider: { ...house.provider, payOffSession } })
  await house.set(id, OFF)
  await house.clock.turn(5 * MINUTE_MS)
  await house.look()
  await house.set(id, SAME)
  await house.look()
  expect(await house.credited(id)).toEqual([AMOUNT_CENTS])
})
