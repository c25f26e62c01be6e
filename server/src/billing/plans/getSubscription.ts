import { type Plan, type PlanPrice, type PlanQuota, planOnOffer } from '../../catalog/plan.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { entitledPlan, type PlanUsage } from './cover.ts'
import { readPlanState, readSubscription } from './readPlan.ts'
import { keyOfUnknownPrice, planOfSubscription, type Subscription } from './subscription.ts'

/** A subscription as customers see it. */
export interface ShownSubscription {
  /** Entitled right now. */
  readonly isEntitled: boolean
  /** Null: never subscribed. */
  readonly subscription: Subscription | null
  readonly plan: Plan
  /**
   * Of the meter's time, in the grace of the one that ended. Null where it does not entitle, or its meter could not be read: never
   * that nothing was used.
   */
  readonly usage: PlanUsage | null
  /** Of the plan. Null where it can't be read: never that it is free. */
  readonly price: PlanPrice | null
}

const NO_QUOTA: PlanQuota = { inputTokens: 0, outputTokens: 0, weeklyTokens: 0, backstopMicrocents: 0n }

/** The plan that is shown where the settings have none. */
const NO_PLAN: Plan = { key: 'none', name: 'No plan', graceMs: 0, quota: NO_QUOTA }

export interface SubscriptionDependencies {
  readonly database: Queryable
  readonly clock: Clock
  /** The plans in force. */
  readonly plans: () => readonly Plan[]
  /** Reads the price of a plan at the payment provider. Never rejects. */
  readonly readPrice: (plan: Plan) => Promise<PlanPrice | null>
  /** A meter could not be read. */
  readonly report: (error: unknown) => void
}

/**
 * Returns the subscription of an organization with its usage, exact to the last charge that was answered. An
 * organization that never subscribed is shown the plan that a checkout would sell, with the quota that it would give; where none can be
 * bought, the first. A plan that the settings no longer have is shown without any quota.
 */
export async function getSubscription(
  dependencies: SubscriptionDependencies,
  organizationId: string,
): Promise<ShownSubscription> {
  const shown = await readShown(dependencies, organizationId)
  return { ...shown, price: await dependencies.readPrice(shown.plan) }
}

async function readShown(
  { database, clock, plans, report }: SubscriptionDependencies,
  organizationId: string,
): Promise<Omit<ShownSubscription, 'price'>> {
  const offered = plans()
  const nowMs = clock.now()
  const subscription = await readSubscription(database, organizationId, nowMs)
  if (subscription === null) {
    return { isEntitled: false, subscription, plan: planOnOffer(offered) ?? offered[0] ?? NO_PLAN, usage: null }
  }
  const entitled = entitledPlan(offered, subscription, nowMs)
  const plan = planOfSubscription(offered, subscription) ?? goneFrom(subscription)
  if (entitled === null) return { isEntitled: false, subscription, plan, usage: null }
  const state = await readPlanState(database, organizationId, nowMs).catch((error: unknown) => {
    report(error)
    return null
  })
  return { isEntitled: true, subscription, plan, usage: state?.usage ?? null }
}

/** Returns what is shown of a plan that the settings have no more: its price is that which is paid. */
function goneFrom({ planKey, paymentPrice }: Subscription): Plan {
  if (paymentPrice === undefined) return { ...NO_PLAN, key: planKey, name: planKey }
  const key = keyOfUnknownPrice(paymentPrice)
  return { ...NO_PLAN, key, name: key, paymentPrice }
}
