import { setSubscription } from '../../src/billing/plans/setSubscription.ts'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import type { TestKey } from '../customer.ts'

/** Subscribes an organization to a plan of the settings, for a period that began a day ago and ends in `leftMs`. */
export async function subscribe(
  database: Database,
  { organizationId }: TestKey,
  planKey: string,
  nowMs = systemClock.now(),
  leftMs = 30 * DAY_MS,
): Promise<void> {
  const [periodStartMs, periodEndMs] = [nowMs - DAY_MS, nowMs + leftMs]
  const subscription = { planKey, status: 'active', periodStartMs, periodEndMs, cancelAtPeriodEnd: false }
  await setSubscription(database, organizationId, subscription, nowMs)
}

/** Subscribes an organization to the plan `small` of the settings, all of whose quota of a period is used up. */
export async function useUpPlan(database: Database, customer: TestKey, leftMs?: number): Promise<void> {
  await subscribe(database, customer, 'small', systemClock.now(), leftMs)
  const { organizationId } = customer
  await database.query(
    `insert into plan_periods (organization_id, period_start, slot, input_tokens, output_tokens, list_microcents)
     select organization_id, period_start, 900, 100, 0, 0 from subscriptions where organization_id = $1::uuid`,
    [organizationId],
  )
}
