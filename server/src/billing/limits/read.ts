import type { Queryable } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { readFigures } from '../admission/accounts/figures.ts'
import { type SpendingLimit, toSpendingLimit } from './limit.ts'

/** An organization's spending limit and what is spent, exact to the last charge that was answered; null: none is set. */
export async function readSpendingLimit(
  database: Queryable,
  clock: Clock,
  organizationId: string,
): Promise<SpendingLimit | null> {
  const nowMs = clock.now()
  const figures = await readFigures(database, organizationId, nowMs)
  return figures === null ? null : toSpendingLimit(figures, nowMs)
}
