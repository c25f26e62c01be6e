import type { Queryable } from '../../infra/postgres/database.ts'
import { NOTHING_USED, type PlanState } from './cover.ts'
import { readPlanStates, selectSubscription } from './store.ts'
import type { Subscription } from './subscription.ts'

/** Returns the subscription of an organization, ended ones too, with its meter of now; null where it never had one. */
export function readSubscription(
  database: Queryable,
  organizationId: string,
  nowMs: number,
): Promise<Subscription | null> {
  return selectSubscription(database, organizationId, nowMs)
}

/** Of organizations that never subscribed. */
const NEVER_SUBSCRIBED: PlanState = { subscription: null, usage: NOTHING_USED, oldestHourMs: null }

/** An organization's subscription and its meter, exact to the last charge that was posted. Reads only. */
export async function readPlanState(database: Queryable, organizationId: string, nowMs: number): Promise<PlanState> {
  return (await readPlanStatesOf(database, [organizationId], nowMs))(organizationId)
}

/** The same of many, in one statement. */
export async function readPlanStatesOf(
  database: Queryable,
  organizationIds: readonly string[],
  nowMs: number,
): Promise<(organizationId: string) => PlanState> {
  const states = await readPlanStates(database, organizationIds, nowMs)
  return (organizationId) => states.get(organizationId) ?? NEVER_SUBSCRIBED
}
