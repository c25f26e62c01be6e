import type { Queryable } from '../../infra/postgres/database.ts'
import { toCentsRoundingDown } from '../../lib/money.ts'
import { readBalance } from '../admission/balance/balance.ts'

/** The balance as customers see it. */
export interface Balance {
  readonly balanceCents: number
  /** Committed hourly price of live instances; null: not known. */
  readonly burnCentsPerHour: number | null
  readonly autoPay: ShownTerms | null
}

/** The terms of auto-pay, in US cents; null in its place: auto-pay is off. */
interface ShownTerms {
  readonly thresholdCents: number
  readonly amountCents: number
}

/** Reads the terms of an organization's auto-pay; null where it is off. */
export type ReadAutoPay = (organizationId: string) => Promise<ShownTerms | null>

/**
 * The committed hourly price of an organization's live instances in cents, counted from launch; null when that can't be
 * told now, which is never the same as 0.
 */
export type ReadBurn = (organizationId: string) => Promise<number | null>

/** Reads an organization's balance, exact to the last charge that was answered. */
export async function getBalance(
  database: Queryable,
  readBurn: ReadBurn,
  readAutoPay: ReadAutoPay,
  organizationId: string,
): Promise<Balance> {
  const [microcents, burnCentsPerHour, autoPay] = await Promise.all([
    readBalance(database, organizationId),
    readBurn(organizationId).catch(() => null),
    readAutoPay(organizationId),
  ])
  return { balanceCents: toCentsRoundingDown(microcents), burnCentsPerHour, autoPay }
}
