import { describe, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { MODALITIES } from '../../catalog/model.ts'
import type { Plan } from '../../catalog/plan.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS } from '../../lib/time.ts'
import { askPlan, type Coverable, isWithin, type PlanState } from './cover.ts'
import { isEntitled } from './subscription.ts'

const NOW_MS = Date.UTC(2031, 4, 17, 13, 30)

const amount = fc.bigInt({ min: 0n, max: 1_000n })
const quota = fc.record({
  inputTokens: fc.integer({ min: 1, max: 500 }),
  outputTokens: fc.integer({ min: 1, max: 500 }),
  weeklyTokens: fc.integer({ min: 1, max: 500 }),
  backstopMicrocents: fc.oneof(fc.constant(0n), fc.bigInt({ min: 1n, max: 500n })),
})
const plan: fc.Arbitrary<Plan> = fc.record({
  key: fc.constantFrom('a', 'b'),
  name: fc.constant('A plan'),
  graceMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: DAY_MS })),
  quota,
})
const model: fc.Arbitrary<Coverable> = fc.record({
  modality: fc.constantFrom(...MODALITIES),
  planCovered: fc.boolean(),
  usageFactorThousandths: fc.integer({ min: 1, max: 5_000 }),
})
const state: fc.Arbitrary<PlanState> = fc.record({
  subscription: fc.option(
    fc.record({
      planKey: fc.constantFrom('a', 'b', 'gone'),
      status: fc.constantFrom('active', 'trialing', 'past_due', 'canceled', 'unpaid'),
      periodStartMs: fc.integer({ min: NOW_MS - 2 * DAY_MS, max: NOW_MS + DAY_MS }),
      periodEndMs: fc.integer({ min: NOW_MS - DAY_MS, max: NOW_MS + 2 * DAY_MS }),
      cancelAtPeriodEnd: fc.boolean(),
    }),
  ),
  usage: fc.record({ inputTokens: amount, outputTokens: amount, weeklyTokens: amount, listMicrocents: amount }),
  oldestHourMs: fc.option(
    fc.integer({ min: 0, max: 168 }).map((hours) => Math.floor(NOW_MS / HOUR_MS) * HOUR_MS - hours * HOUR_MS),
  ),
})

test('the answer follows from entitlement, cover and what is left, and from nothing else', () => {
  fc.assert(
    fc.property(fc.array(plan, { maxLength: 3 }), state, model, (plans, given, called) => {
      const { subscription, usage } = given
      const answer = askPlan(plans, given, called, NOW_MS)
      const its = plans.find(({ key }) => key === subscription?.planKey)
      if (subscription === null || its === undefined || !isEntitled(subscription, its.graceMs, NOW_MS)) {
        expect(answer).toEqual({ kind: 'none' })
        return
      }
      if (!isWithin(its, called)) {
        expect(answer).toEqual({ kind: 'outside' })
        return
      }
      const backstop = its.quota.backstopMicrocents
      const hasLeft =
        usage.inputTokens < its.quota.inputTokens &&
        usage.outputTokens < its.quota.outputTokens &&
        usage.weeklyTokens < its.quota.weeklyTokens &&
        (backstop === 0n || usage.listMicrocents < backstop)
      expect(answer.kind).toBe(hasLeft ? 'covered' : 'used_up')
      if (answer.kind === 'covered') {
        const { periodStartMs } = subscription
        expect(answer.cover).toEqual({ periodStartMs, factorThousandths: called.usageFactorThousandths })
      }
      if (answer.kind === 'used_up') expect(answer.freeAtMs).toBeGreaterThan(NOW_MS)
    }),
    { numRuns: 2_000 },
  )
})

test('using more never brings cover back', () => {
  fc.assert(
    fc.property(plan, state, model, amount, (offered, given, called, more) => {
      const used = given.usage
      const usage = {
        inputTokens: used.inputTokens + more,
        outputTokens: used.outputTokens + more,
        weeklyTokens: used.weeklyTokens + more,
        listMicrocents: used.listMicrocents + more,
      }
      const before = askPlan([offered], given, called, NOW_MS).kind
      const after = askPlan([offered], { ...given, usage }, called, NOW_MS).kind
      expect(after === before || (before === 'covered' && after === 'used_up')).toBe(true)
    }),
  )
})

test('videos are within no plan, and images only within those with a backstop', () => {
  const none: Plan = {
    key: 'a',
    name: 'A',
    graceMs: 0,
    quota: { inputTokens: 1, outputTokens: 1, weeklyTokens: 1, backstopMicrocents: 0n },
  }
  const some: Plan = { ...none, quota: { ...none.quota, backstopMicrocents: 1n } }
  const within = (each: Plan) =>
    MODALITIES.filter((modality) => isWithin(each, { modality, planCovered: true, usageFactorThousandths: 1_000 }))
  expect(within(none)).toEqual(['chat', 'embedding'])
  expect(within(some)).toEqual(['chat', 'image', 'embedding'])
  for (const modality of MODALITIES) {
    expect(isWithin(some, { modality, planCovered: false, usageFactorThousandths: 1_000 })).toBe(false)
  }
})

test('it may be free again when the period ends, when the oldest hour leaves the week, or with the later of both', () => {
  const offered: Plan = {
    key: 'a',
    name: 'A',
    graceMs: HOUR_MS,
    quota: { inputTokens: 10, outputTokens: 10, weeklyTokens: 10, backstopMicrocents: 10n },
  }
  const periodEndMs = NOW_MS + DAY_MS
  const oldestHourMs = Math.floor(NOW_MS / HOUR_MS) * HOUR_MS - 2 * DAY_MS
  const subscription = { planKey: 'a', status: 'active', periodStartMs: 0, periodEndMs, cancelAtPeriodEnd: false }
  const called: Coverable = { modality: 'chat', planCovered: true, usageFactorThousandths: 1_000 }
  const freeAt = (usage: Partial<PlanState['usage']>, nowMs = NOW_MS) => {
    const nothing = { inputTokens: 0n, outputTokens: 0n, weeklyTokens: 0n, listMicrocents: 0n }
    const answer = askPlan([offered], { subscription, usage: { ...nothing, ...usage }, oldestHourMs }, called, nowMs)
    return answer.kind === 'used_up' ? answer.freeAtMs : answer.kind
  }
  const weekAtMs = oldestHourMs + WEEK_MS + HOUR_MS
  expect(freeAt({ inputTokens: 9n, outputTokens: 9n, weeklyTokens: 9n, listMicrocents: 9n })).toBe('covered')
  expect(freeAt({ inputTokens: 10n })).toBe(periodEndMs)
  expect(freeAt({ outputTokens: 11n })).toBe(periodEndMs)
  expect(freeAt({ listMicrocents: 10n })).toBe(periodEndMs)
  expect(freeAt({ weeklyTokens: 10n })).toBe(weekAtMs)
  expect(freeAt({ weeklyTokens: 10n, inputTokens: 10n })).toBe(Math.max(weekAtMs, periodEndMs))
  // In the grace a renewal may come at any moment: whatever is used up, it is worth asking in a minute (P7).
  for (const nowMs of [periodEndMs, periodEndMs + HOUR_MS - 1]) {
    for (const usage of [{ inputTokens: 10n }, { listMicrocents: 10n }, { weeklyTokens: 10n }]) {
      expect(freeAt(usage, nowMs)).toBe(nowMs + MINUTE_MS)
    }
    expect(freeAt({}, nowMs)).toBe('covered')
  }
  expect(freeAt({ inputTokens: 10n }, periodEndMs + HOUR_MS)).toBe('none')
})

describe('a subscription entitles within its period, and for the grace after it where it is to be renewed (P7)', () => {
  const END_MS = NOW_MS
  const START_MS = END_MS - DAY_MS
  test.each([
    // status, cancelled at the period's end, grace, milliseconds after the period's end
    ['active', false, HOUR_MS, -DAY_MS - 1, false],
    ['active', false, HOUR_MS, -DAY_MS, true],
    ['active', false, HOUR_MS, -1, true],
    ['active', false, HOUR_MS, 0, true],
    ['trialing', false, HOUR_MS, HOUR_MS - 1, true],
    ['active', false, HOUR_MS, HOUR_MS, false],
    ['active', false, 0, -1, true],
    ['active', false, 0, 0, false],
    ['active', true, HOUR_MS, -1, true],
    ['active', true, HOUR_MS, 0, false],
    ['trialing', true, HOUR_MS, 0, false],
    ['past_due', false, HOUR_MS, -1, false],
    ['past_due', false, HOUR_MS, 0, false],
    ['canceled', false, HOUR_MS, 0, false],
    ['unpaid', false, HOUR_MS, 0, false],
  ])(
    '%s, cancelled %p, a grace of %p ms, %p ms after the end: %p',
    (status, isCancelled, graceMs, afterMs, entitles) => {
      const period = { periodStartMs: START_MS, periodEndMs: END_MS, cancelAtPeriodEnd: isCancelled }
      expect(isEntitled({ planKey: 'a', status, ...period }, graceMs, END_MS + afterMs)).toBe(entitles)
    },
  )
})
