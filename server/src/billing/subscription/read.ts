import type { Plan, PlanQuota } from '../../catalog/plan.ts'
import type { Queryable } from '../../io/postgres/database.ts'
import type { Clock } from '../../kernel/time.ts'
import { entitledPlan, type PlanUsage } from '../../money/plan/gate.ts'
import { readPlanState, readSubscription } from '../../money/plan/readPlan.ts'
import type { Subscription } from '../../money/plan/subscription.ts'

/** A subscription as customers see it. */
export interface ShownSubscription {
  /** Entitled right now. */
  readonly isEntitled: boolean
  /** Null: never subscribed. */
  readonly subscription: Subscription | null
  readonly plan: Plan
  /** Null where it does not entitle, or its meter could not be read: never that nothing was used. */
  readonly usage: PlanUsage | null
}

const NO_QUOTA: PlanQuota = { inputTokens: 0, outputTokens: 0, weeklyTokens: 0, backstopMicrocents: 0n }

/** What is shown where the settings have no plan. */
const NO_PLAN: Plan = { key: 'none', name: 'No plan', quota: NO_QUOTA }

export interface SubscriptionDependencies {
  readonly database: Queryable
  readonly clock: Clock
  /** The plans in force. */
  readonly plans: () => readonly Plan[]
  /** A meter could not be read. */
  readonly report: (error: unknown) => void
}

/**
 * What an organization is subscribed to, exact to the last charge that was answered. Who never was to anything is shown
 * the first plan, with the quota that it would give. A plan that the settings have no more is shown without any quota.
 */
export async function getSubscription(
  { database, clock, plans, report }: SubscriptionDependencies,
  organizationId: string,
): Promise<ShownSubscription> {
  const offered = plans()
  const subscription = await readSubscription(database, organizationId)
  if (subscription === null) {
    return { isEntitled: false, subscription, plan: offered[0] ?? NO_PLAN, usage: null }
  }
  const nowMs = clock.now()
  const entitled = entitledPlan(offered, subscription, nowMs)
  const { planKey } = subscription
  const plan = offered.find(({ key }) => key === planKey) ?? { key: planKey, name: planKey, quota: NO_QUOTA }
  if (entitled === null) return { isEntitled: false, subscription, plan, usage: null }
  const state = await readPlanState(database, organizationId, nowMs).catch((error: unknown) => {
    report(error)
    return null
  })
  return { isEntitled: true, subscription, plan, usage: state?.usage ?? null }
}
