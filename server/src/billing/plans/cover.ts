/**
 * Whether a plan covers a call, which is looked at before the gates on money (E1, P2, P4). Pure: the same functions answer real calls
 * and preflight.
 */

import type { Modality } from '../../catalog/model.ts'
import type { Plan } from '../../catalog/plan.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS } from '../../lib/time.ts'
import { hasEnded, isEntitled, meterOf, planOfSubscription, type Subscription } from './subscription.ts'

/** Retry-After in the grace period: the renewal may have come by then (P7). */
const RENEWAL_WAIT_MS = MINUTE_MS

/** The facts about a model that decide whether plans cover it. */
export interface Coverable {
  readonly modality: Modality
  readonly planCovered: boolean
  readonly usageFactorThousandths: number
}

/** The amounts that a plan was used for. Tokens are weighted. */
export interface PlanUsage {
  /** Of the time of the meter: the subscription's period, or an earlier one that is carried on. */
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  /** Input and output of the last 7 days, to the hour, never too low. */
  readonly weeklyTokens: bigint
  /** Of the period, by list price. */
  readonly listMicrocents: bigint
}

export const NOTHING_USED: PlanUsage = { inputTokens: 0n, outputTokens: 0n, weeklyTokens: 0n, listMicrocents: 0n }

export function sumOfUsage(one: PlanUsage, other: PlanUsage): PlanUsage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    weeklyTokens: one.weeklyTokens + other.weeklyTokens,
    listMicrocents: one.listMicrocents + other.listMicrocents,
  }
}

/** The covered calls of an organization that a process has under way, and the most that they can come to. */
export interface CoveredCalls {
  readonly count: number
  readonly atMost: PlanUsage
}

const NO_CALLS: CoveredCalls = { count: 0, atMost: NOTHING_USED }

/**
 * So many calls at once are covered while anything is left, whatever they can come to: most come to far less, and a small plan must not
 * refuse them. Further ones are covered only where something is left beside all that those under way can come to.
 */
const COVERED_AT_ONCE = 16

/** Calls under way end soon, and mostly leave something. */
const CALLS_WAIT_MS = SECOND_MS

/** An organization's subscription and its meter, as they were read. */
export interface PlanState {
  /** Null: never subscribed. */
  readonly subscription: Subscription | null
  readonly usage: PlanUsage
  /** The oldest hour that the rolling week counts anything of; null: none does. */
  readonly oldestHourMs: number | null
}

/** The cover of a call by a plan: the charge costs nothing and counts on this period's meter. */
export interface Cover {
  /** Names the meter: the start of the period that it began with; in the grace of the one that ended. */
  readonly periodStartMs: number
  /** The model's usage factor at admission. */
  readonly factorThousandths: number
}

export type PlanAnswer =
  /** Not subscribed, or not entitled now. */
  | { readonly kind: 'none' }
  /** Subscribed, and the model is not within the plan. */
  | { readonly kind: 'outside' }
  /** The whole call costs the balance nothing. `endCall` is to be called once when it is over, where it is there. */
  | { readonly kind: 'covered'; readonly cover: Cover; readonly endCall?: () => void }
  /** Within the plan, of which a quota or the backstop is used up; `freeAtMs` is when it may be free again. */
  | { readonly kind: 'used_up'; readonly freeAtMs: number }
  /** The meter could not be read: counts as pay-as-you-go (P3). */
  | { readonly kind: 'unreadable' }

export const NO_PLAN: PlanAnswer = { kind: 'none' }

/**
 * Returns whether a plan is for calls of a model (P4): only where the model says so, never for videos, and for
 * images only where the plan has a backstop, since images spend no tokens. Both tiers of a model alike.
 */
export function isWithin(plan: Plan, model: Coverable): boolean {
  if (!model.planCovered || model.modality === 'video') return false
  return model.modality !== 'image' || plan.quota.backstopMicrocents > 0n
}

/**
 * The plan that a subscription entitles to now, in its grace too; null where it entitles to none, or its plan is not offered
 * any more.
 */
export function entitledPlan(plans: readonly Plan[], subscription: Subscription | null, nowMs: number): Plan | null {
  if (subscription === null) return null
  const plan = planOfSubscription(plans, subscription)
  return plan !== undefined && isEntitled(subscription, plan.graceMs, nowMs) ? plan : null
}

/** Decides whether the plan covers a call that is admitted now, from what was used before it and what is under way. */
export function askPlan(
  plans: readonly Plan[],
  state: PlanState,
  model: Coverable,
  nowMs: number,
  { count, atMost }: CoveredCalls = NO_CALLS,
): PlanAnswer {
  const { subscription } = state
  const plan = entitledPlan(plans, subscription, nowMs)
  if (plan === null || subscription === null) return NO_PLAN
  if (!isWithin(plan, model)) return { kind: 'outside' }
  const freeAtMs = freeAgainAt(plan, state, subscription, nowMs)
  if (freeAtMs !== null) return { kind: 'used_up', freeAtMs }
  if (count >= COVERED_AT_ONCE && usedUp(plan, sumOfUsage(state.usage, atMost)).isAny) {
    return { kind: 'used_up', freeAtMs: nowMs + CALLS_WAIT_MS }
  }
  const periodStartMs = meterOf(subscription).startMs
  return { kind: 'covered', cover: { periodStartMs, factorThousandths: model.usageFactorThousandths } }
}

/**
 * When all that is used up may be free again; null when nothing is. The week frees an hour's slice at a time. In the grace
 * the next period may begin at any moment.
 */
function freeAgainAt(plan: Plan, state: PlanState, subscription: Subscription, nowMs: number): number | null {
  const { oldestHourMs } = state
  const { isPeriodUsedUp, isWeekUsedUp, isAny } = usedUp(plan, state.usage)
  if (!isAny) return null
  if (hasEnded(subscription, nowMs)) return nowMs + RENEWAL_WAIT_MS
  const { untilMs } = meterOf(subscription)
  const weekFreesAtMs = (oldestHourMs ?? Math.floor(nowMs / HOUR_MS) * HOUR_MS) + WEEK_MS + HOUR_MS
  if (!isWeekUsedUp) return untilMs
  return isPeriodUsedUp ? Math.max(untilMs, weekFreesAtMs) : weekFreesAtMs
}

/** Says which of a plan's quotas, or its backstop, so much use has used up. */
function usedUp({ quota }: Plan, usage: PlanUsage) {
  const isPeriodUsedUp =
    usage.inputTokens >= BigInt(quota.inputTokens) ||
    usage.outputTokens >= BigInt(quota.outputTokens) ||
    (quota.backstopMicrocents > 0n && usage.listMicrocents >= quota.backstopMicrocents)
  const isWeekUsedUp = usage.weeklyTokens >= BigInt(quota.weeklyTokens)
  return { isPeriodUsedUp, isWeekUsedUp, isAny: isPeriodUsedUp || isWeekUsedUp }
}
