import { describe, expect, test } from 'bun:test'
import type { Figures } from '../../billing/admission/gates.ts'
import type { PlanAnswer } from '../../billing/plans/cover.ts'
import { MODALITIES } from '../../catalog/model.ts'
import { judge, type Known, sentenceOf, type Verdict } from './verdict.ts'

const FUNDED: Figures = {
  balanceMicrocents: 1n,
  sharesMicrocents: 0n,
  heldMicrocents: 0n,
  daySpentMicrocents: 5n,
  monthSpentMicrocents: 5n,
  instancesHeldMicrocents: 0n,
  burnMicrocents: 0n,
  hourSpentMicrocents: 5n,
  isNew: false,
  dailyLimitMicrocents: 6n,
  monthlyLimitMicrocents: 6n,
  enforcement: 'block_launch',
}
const BROKE: Figures = { ...FUNDED, balanceMicrocents: 0n, dailyLimitMicrocents: 5n, monthlyLimitMicrocents: 5n }
const DAY_REACHED: Figures = { ...FUNDED, dailyLimitMicrocents: 5n, monthlyLimitMicrocents: 5n }
const MONTH_REACHED: Figures = { ...FUNDED, monthlyLimitMicrocents: 5n }
const notified = (figures: Figures): Figures => ({ ...figures, enforcement: 'notify_only' })

const NONE: PlanAnswer = { kind: 'none' }
const OUTSIDE: PlanAnswer = { kind: 'outside' }
const COVERED: PlanAnswer = { kind: 'covered', cover: { periodStartMs: 0, factorThousandths: 1_000 } }
const USED_UP: PlanAnswer = { kind: 'used_up', freeAtMs: 1 }
const UNREADABLE: PlanAnswer = { kind: 'unreadable' }

const KNOWN = { isOffered: true, costsMoney: true, wholeOutputMicrocents: null } as const

type Row = [
  plan: PlanAnswer,
  figures: Figures | null,
  more: Partial<Known>,
  verdict: Verdict['verdict'],
  reason: Verdict['reason'],
  funded: boolean,
]

const rows: Row[] = [
  [COVERED, FUNDED, {}, 'ok', 'plan_covered', true],
  [COVERED, BROKE, {}, 'ok', 'plan_covered', false],
  [COVERED, null, {}, 'ok', 'plan_covered', true],
  [USED_UP, FUNDED, {}, 'warn', 'subscription_quota_exhausted', true],
  [USED_UP, notified(DAY_REACHED), {}, 'warn', 'subscription_quota_exhausted', true],
  [USED_UP, BROKE, {}, 'block', 'subscription_quota_exhausted', false],
  [USED_UP, DAY_REACHED, {}, 'block', 'subscription_quota_exhausted', false],
  [USED_UP, null, {}, 'ok', 'preflight_unavailable', true],
  [OUTSIDE, FUNDED, {}, 'warn', 'not_plan_covered', true],
  [OUTSIDE, notified(MONTH_REACHED), {}, 'warn', 'not_plan_covered', true],
  [OUTSIDE, BROKE, {}, 'block', 'insufficient_balance', false],
  [OUTSIDE, MONTH_REACHED, {}, 'block', 'monthly_limit_reached', false],
  [OUTSIDE, null, {}, 'ok', 'preflight_unavailable', true],
  [NONE, FUNDED, {}, 'ok', 'payg', true],
  [NONE, FUNDED, { isOffered: false }, 'ok', null, true],
  [NONE, BROKE, {}, 'block', 'insufficient_balance', false],
  [NONE, { ...FUNDED, balanceMicrocents: -7n }, {}, 'block', 'insufficient_balance', false],
  [NONE, DAY_REACHED, {}, 'block', 'daily_limit_reached', false],
  [NONE, MONTH_REACHED, {}, 'block', 'monthly_limit_reached', false],
  [NONE, notified(DAY_REACHED), {}, 'warn', 'daily_limit_reached', true],
  [NONE, notified(MONTH_REACHED), { isOffered: false }, 'warn', 'monthly_limit_reached', true],
  [NONE, notified(BROKE), {}, 'block', 'insufficient_balance', false],
  // Money that is set aside may come back, and the cap of new accounts is not looked at.
  [NONE, { ...FUNDED, sharesMicrocents: 99n }, {}, 'ok', 'payg', true],
  [NONE, { ...FUNDED, isNew: true, hourSpentMicrocents: 10n ** 12n }, {}, 'ok', 'payg', true],
  // The money that jobs hold is not counted on.
  [NONE, { ...FUNDED, balanceMicrocents: 9n, heldMicrocents: 9n }, {}, 'block', 'insufficient_balance', false],
  [NONE, { ...FUNDED, balanceMicrocents: 9n, heldMicrocents: 8n }, {}, 'ok', 'payg', true],
  [OUTSIDE, { ...FUNDED, balanceMicrocents: 9n, heldMicrocents: 9n }, {}, 'block', 'insufficient_balance', false],
  [COVERED, { ...FUNDED, balanceMicrocents: 9n, heldMicrocents: 9n }, {}, 'ok', 'plan_covered', false],
  [NONE, null, {}, 'ok', 'preflight_unavailable', true],
  [UNREADABLE, FUNDED, {}, 'ok', 'preflight_unavailable', true],
  [UNREADABLE, BROKE, {}, 'ok', 'preflight_unavailable', false],
  // A call that costs nothing needs no money.
  [NONE, BROKE, { costsMoney: false }, 'ok', 'payg', false],
  [OUTSIDE, BROKE, { costsMoney: false }, 'warn', 'not_plan_covered', false],
  [USED_UP, BROKE, { costsMoney: false }, 'warn', 'subscription_quota_exhausted', false],
]

describe('chat, embeddings and images', () => {
  test.each(rows)('%j %#', (plan, figures, more, verdict, reason, funded) => {
    for (const modality of MODALITIES.filter((each) => each !== 'video')) {
      const judged = judge({ ...KNOWN, modality, plan, figures, ...more })
      expect({ verdict: judged.verdict, reason: judged.reason, funded: judged.funded }).toEqual({
        verdict,
        reason,
        funded,
      })
      const subscribed = plan.kind === 'covered' || plan.kind === 'used_up' || plan.kind === 'outside'
      expect(judged.subscribed).toBe(subscribed)
      expect(sentenceOf(judged)).toMatch(/^\S.+\.$/)
    }
  })
})

describe('a video meets the balance alone', () => {
  const video = (plan: PlanAnswer, figures: Figures | null) =>
    judge({ ...KNOWN, modality: 'video', plan, figures, isOffered: false })
  test.each([
    [NONE, FUNDED, 'ok', null, true],
    [NONE, DAY_REACHED, 'ok', null, true],
    [NONE, notified(MONTH_REACHED), 'ok', null, true],
    [NONE, BROKE, 'block', 'insufficient_balance', false],
    [NONE, { ...DAY_REACHED, heldMicrocents: 1n }, 'block', 'insufficient_balance', false],
    [OUTSIDE, MONTH_REACHED, 'warn', 'not_plan_covered', true],
    [OUTSIDE, BROKE, 'block', 'insufficient_balance', false],
    [NONE, null, 'ok', 'preflight_unavailable', true],
    [UNREADABLE, DAY_REACHED, 'ok', 'preflight_unavailable', true],
  ] as const)('%j %#', (plan, figures, verdict, reason, funded) => {
    expect(video(plan, figures)).toEqual({
      verdict,
      reason,
      funded,
      planCovered: false,
      subscribed: plan.kind === 'outside',
      mayNeedMaxTokens: false,
    })
  })
})

describe('a chat call without max_tokens that the room may not cover', () => {
  const RICH: Figures = { ...FUNDED, balanceMicrocents: 100n, dailyLimitMicrocents: 105n, monthlyLimitMicrocents: 105n }
  const chat = (plan: PlanAnswer, figures: Figures | null, wholeOutputMicrocents: bigint | null, costsMoney = true) =>
    judge({ ...KNOWN, modality: 'chat', plan, figures, wholeOutputMicrocents, costsMoney })
  const hinted: [PlanAnswer, Figures | null, bigint | null, boolean][] = [
    [NONE, RICH, 100n, false],
    [NONE, RICH, 101n, true],
    [OUTSIDE, RICH, 101n, true],
    [USED_UP, RICH, 101n, true],
    [COVERED, RICH, 101n, false],
    [UNREADABLE, RICH, 101n, false],
    [NONE, null, 101n, false],
    // Every gate counts, and what jobs hold of the balance; what calls under way hold may come back.
    [NONE, { ...RICH, dailyLimitMicrocents: 104n }, 100n, true],
    [NONE, { ...RICH, monthlyLimitMicrocents: 104n }, 100n, true],
    [NONE, notified({ ...RICH, monthlyLimitMicrocents: 104n }), 100n, false],
    [NONE, { ...RICH, heldMicrocents: 1n }, 100n, true],
    [NONE, { ...RICH, sharesMicrocents: 99n }, 100n, false],
    // A smaller max_tokens does not help a call that is blocked anyway.
    [NONE, BROKE, 101n, false],
    [USED_UP, BROKE, 101n, false],
    [NONE, RICH, null, false],
  ]
  test.each(hinted)('%j %#', (plan, figures, whole, says) => {
    const judged = chat(plan, figures, whole)
    expect(judged.mayNeedMaxTokens).toBe(says)
    expect(sentenceOf(judged).includes('a smaller max_tokens may be needed')).toBe(says)
    // Verdict, reason and `funded` are what they are without it.
    expect(judged).toEqual({ ...chat(plan, figures, null), mayNeedMaxTokens: says })
  })

  test('is told nothing where the model costs nothing', () => {
    expect(chat(NONE, RICH, 0n, false).mayNeedMaxTokens).toBe(false)
  })
})
