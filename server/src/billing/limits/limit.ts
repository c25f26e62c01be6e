import { divideRoundingDown, MICROCENTS_PER_CENT, toCentsRoundingDown } from '../../lib/money.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { AccountFigures } from '../admission/accounts/figures.ts'
import type { LimitChange } from '../admission/accounts/limit.ts'
import type { Enforcement } from '../admission/gates.ts'

/** The smallest monthly limit, and the largest of either: far above any bill, and exact in every number that shows it. */
export const MONTHLY_MIN_DOLLARS = 1
export const LIMIT_MAX_DOLLARS = 1_000_000_000

/** A spending limit with what is spent against it, as customers see it. */
export interface SpendingLimit {
  readonly monthlyLimitCents: number
  readonly dailyLimitCents: number | null
  readonly monthSpendCents: number
  readonly daySpendCents: number
  /** Of the monthly limit, 2 decimals; may pass 100. */
  readonly percentUsed: number
  /** The month's first instant. */
  readonly billingCycleStart: string
  readonly enforcement: Enforcement
  readonly autoTerminateHours: number | null
}

/** The limits that a customer asks for; validated. */
export interface LimitRequest {
  readonly monthlyDollars: number
  /** Undefined leaves it, 0 clears it. */
  readonly dailyDollars: number | undefined
  readonly enforcement: Enforcement | undefined
  /** Undefined leaves it, null means never. */
  readonly autoTerminateHours: number | null | undefined
}

/** Returns whether an amount has at most 2 decimals, as it was written in decimal. */
export function isWholeCents(dollars: number): boolean {
  return Math.round(dollars * 100) / 100 === dollars
}

export function toChange(wanted: LimitRequest): LimitChange {
  const toMicrocents = (dollars: number) => BigInt(Math.round(dollars * 100)) * MICROCENTS_PER_CENT
  return {
    monthlyMicrocents: toMicrocents(wanted.monthlyDollars),
    dailyMicrocents: wanted.dailyDollars === undefined ? undefined : toMicrocents(wanted.dailyDollars),
    enforcement: wanted.enforcement,
    autoTerminateHours: wanted.autoTerminateHours,
  }
}

/** The limit at an instant, from the account's figures of that instant; null when none is configured. */
export function toSpendingLimit(figures: AccountFigures, nowMs: number): SpendingLimit | null {
  const { monthlyLimitMicrocents: monthly, dailyLimitMicrocents: daily, monthSpentMicrocents: spent } = figures
  if (monthly === null) return null
  const now = new Date(nowMs)
  return {
    monthlyLimitCents: toCentsRoundingDown(monthly),
    dailyLimitCents: daily === null ? null : toCentsRoundingDown(daily),
    monthSpendCents: toCentsRoundingDown(spent),
    daySpendCents: toCentsRoundingDown(figures.daySpentMicrocents),
    percentUsed: Number(divideRoundingDown(spent * 20_000n + monthly, 2n * monthly)) / 100,
    billingCycleStart: toTimestamp(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)),
    enforcement: figures.enforcement,
    autoTerminateHours: figures.autoTerminateHours,
  }
}
