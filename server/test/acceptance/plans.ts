import { systemClock } from '../../src/io/clock.ts'
import type { Database } from '../../src/io/postgres/database.ts'
import { DAY_MS } from '../../src/kernel/time.ts'
import { setSubscription } from '../../src/money/plan/setSubscription.ts'
import type { TestKey } from '../customer.ts'

/** Subscribes an organization to a plan of the settings, for a period that began a day ago. */
export async function subscribe(
  database: Database,
  { organizationId }: TestKey,
  planKey: string,
  nowMs = systemClock.now(),
): Promise<void> {
  const [periodStartMs, periodEndMs] = [nowMs - DAY_MS, nowMs + 30 * DAY_MS]
  const subscription = { planKey, status: 'active', periodStartMs, periodEndMs, cancelAtPeriodEnd: false }
  await setSubscription(database, organizationId, subscription, nowMs)
}

/** Subscribes an organization to the plan `small` of the settings, all of whose quota of a period is used up. */
export async function useUpPlan(database: Database, customer: TestKey): Promise<void> {
  await subscribe(database, customer, 'small')
  const { organizationId } = customer
  await database.query(
    `insert into plan_periods (organization_id, period_start, slot, input_tokens, output_tokens, list_microcents)
     select organization_id, period_start, 900, 100, 0, 0 from subscriptions where organization_id = $1::uuid`,
    [organizationId],
  )
}
