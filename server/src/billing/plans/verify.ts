import type { Queryable } from '../../infra/postgres/database.ts'
import type { Disagreement } from '../../lib/disagreement.ts'
import { LOWEST_UUID } from '../../lib/ids.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time.ts'
import { comparePlanHour, comparePlanPeriods, hasPlanHours } from './store.ts'

/** Organizations a statement: each has a row a period and a slot, and some hundred of hours. */
const ORGANIZATIONS_PAGE = 100

interface VerifyDependencies {
  readonly database: Queryable
  /** Called between pages, so that one may wait there and leave the database to others. */
  readonly pause: () => Promise<void>
}

/** Every plan's meter: that each period is the sum of its hours. */
async function* verifyPlanPeriods({ database, pause }: VerifyDependencies): AsyncGenerator<Disagreement, void> {
  for (let after: string | null = LOWEST_UUID; after !== null; ) {
    const page: Awaited<ReturnType<typeof comparePlanPeriods>> = await comparePlanPeriods(
      database,
      after,
      ORGANIZATIONS_PAGE,
    )
    for (const found of page.differences) yield { kind: 'plan_period', ...found }
    after = page.lastId
    await pause()
  }
}

/**
 * The meters of the hours of a UTC day against its covered charges; at most `most` of each hour. `hasCovered` tells whether
 * any charge of the day is covered: where nothing is, and no meter says otherwise, there is nothing to compare.
 */
async function* verifyPlanHours(
  { database, pause }: VerifyDependencies,
  dayMs: number,
  hasCovered: boolean,
  most: number,
): AsyncGenerator<Disagreement, void> {
  if (!hasCovered && !(await hasPlanHours(database, dayMs, dayMs + DAY_MS))) return
  for (let hourMs = dayMs; hourMs < dayMs + DAY_MS; hourMs += HOUR_MS) {
    for (const found of await comparePlanHour(database, hourMs, most)) yield { kind: 'plan_hour', hourMs, ...found }
    await pause()
  }
}

/** The check of the meters of plans, for the verification of the books. */
export const planCheck = { whole: verifyPlanPeriods, day: verifyPlanHours }
