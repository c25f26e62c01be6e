import type { Queryable } from '../io/postgres/database.ts'
import { toCentsRoundingDown } from '../kernel/money.ts'
import { readBalance } from '../money/balance.ts'

/** The balance as customers see it. Auto-pay is off until it can be set. */
export interface Balance {
  readonly balanceCents: number
  /** Committed hourly price of live instances; null: not known. */
  readonly burnCentsPerHour: number | null
}

/**
 * The committed hourly price of an organization's live instances in cents, counted from launch; null when that can't be
 * told now, which is never the same as 0.
 */
export type ReadBurn = (organizationId: string) => Promise<number | null>

/** No instances are sold by this server, so none is live. */
export const noInstances: ReadBurn = async () => 0

/** Reads an organization's balance, exact to the last charge that was answered. */
export async function getBalance(database: Queryable, readBurn: ReadBurn, organizationId: string): Promise<Balance> {
  const [microcents, burnCentsPerHour] = await Promise.all([
    readBalance(database, organizationId),
    readBurn(organizationId).catch(() => null),
  ])
  return { balanceCents: toCentsRoundingDown(microcents), burnCentsPerHour }
}
