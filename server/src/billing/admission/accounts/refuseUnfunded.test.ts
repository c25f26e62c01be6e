/** Organizations without credit and without a subscription get nothing that costs others something (P1, P2). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { type House, openHouse, openTill, type Till } from '../../../../test/moneyHouse.ts'
import type { Plan } from '../../../catalog/plan.ts'
import { DAY_MS, HOUR_MS } from '../../../lib/time.ts'
import { setSubscription } from '../../plans/setSubscription.ts'
import { refuseUnfunded } from './refuseUnfunded.ts'

const NOW_MS = Date.UTC(2031, 4, 17, 13, 30)
const CENT = 1_000_000n
const PLAN: Plan = {
  key: 'small',
  name: 'Small',
  graceMs: HOUR_MS,
  quota: { inputTokens: 0, outputTokens: 1_000, weeklyTokens: 1_000, backstopMicrocents: 0n },
}

let house: House
let till: Till
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOW_MS))
  till = openTill(house.database, 1, new TurnedClock(NOW_MS), () => {}, 0n, [PLAN])
}, 60_000)
afterAll(() => house.drop())

const ask = async (organizationId: string): Promise<string | null> => {
  const { database } = house
  return (await refuseUnfunded({ database, clock: new TurnedClock(NOW_MS), money: till }, organizationId))?.code ?? null
}

test.each<[string, bigint, string | null, string | null]>([
  ['credit', 1n, null, null],
  ['no credit', 0n, null, 'insufficient_balance'],
  ['a balance below zero', 0n, 'balance_microcents = -1', 'insufficient_balance'],
  ['credit that videos hold', CENT, 'held_microcents = balance_microcents', 'insufficient_balance'],
  ['credit that calls have set aside', CENT, 'shares_microcents = balance_microcents', null],
  ['a monthly limit that is reached', CENT, LIMIT('block_launch'), 'quota_exceeded'],
  ['a monthly limit that only notifies', CENT, LIMIT('notify_only'), null],
])('an organization with %s', async (_name, balance, change, expected) => {
  const organizationId = await house.organization(balance)
  if (change !== null) {
    await house.database.query(`update accounts set ${change} where organization_id = $1::uuid`, [organizationId])
  }
  expect(await ask(organizationId)).toBe(expected)
})

/** A limit of which nothing is left. */
function LIMIT(enforcement: string): string {
  return `month = '2031-05-01', month_spent_microcents = 5, monthly_limit_microcents = 5, enforcement = '${enforcement}'`
}

test.each<[string, string, number, string | null]>([
  ['active, all of its quota used up', 'active', 30 * DAY_MS, null],
  ['active, in its grace', 'active', -HOUR_MS / 2, null],
  ['past due', 'past_due', 30 * DAY_MS, 'insufficient_balance'],
  ['over', 'active', -2 * HOUR_MS, 'insufficient_balance'],
])('an organization without credit whose subscription is %s', async (_name, status, leftMs, expected) => {
  const organizationId = await house.organization(0n)
  const periodEndMs = NOW_MS + leftMs
  const subscription = {
    planKey: 'small',
    status,
    periodStartMs: NOW_MS - DAY_MS,
    periodEndMs,
    cancelAtPeriodEnd: false,
  }
  await setSubscription(house.database, organizationId, subscription, NOW_MS)
  expect(await ask(organizationId)).toBe(expected)
})

test('an organization without an account is refused', async () => {
  expect(await ask(crypto.randomUUID())).toBe('insufficient_balance')
})
