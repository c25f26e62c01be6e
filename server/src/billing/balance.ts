import type { Queryable } from '../io/postgres/database.ts'
import { toCentsRoundingDown } from '../kernel/money.ts'
import { readBalance } from '../money/balance.ts'

/** The balance as customers see it. Auto-pay is off until it can be set. */
export interface Balance {
  readonly balanceCents: number
  /** Committed hourly price of live instances; null: not known. */
  readonly burnCentsPerHour: number | null
}

/** Reads an organization's balance, exact to the last charge that was answered. */
export async function getBalance(database: Queryable, organizationId: string): Promise<Balance> {
  const microcents = await readBalance(database, organizationId)
  return { balanceCents: toCentsRoundingDown(microcents), burnCentsPerHour: 0 }
}
