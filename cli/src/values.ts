import { parseInstant } from '../../server/src/lib/instant.ts'
import { MICROCENTS_PER_CENT } from '../../server/src/lib/money.ts'
import { toTimestamp } from '../../server/src/lib/time.ts'
import { parseUsd } from '../../server/src/lib/usd.ts'
import type { CommandLine } from './command.ts'
import { UsageMistake } from './failure.ts'

/** Reads the values of options. */

/** A whole number from 1 to `most`; undefined when the option was not given. */
export function wholeNumberOf(args: CommandLine, name: string, most: number): number | undefined {
  const typed = args.text(name)
  if (typed === undefined) return undefined
  const count = /^[1-9][0-9]{0,8}$/.test(typed) ? Number(typed) : 0
  if (count >= 1 && count <= most) return count
  throw new UsageMistake(`--${name}: must be a whole number from 1 to ${most}`)
}

/** A number from 0 to 1,000; undefined when the option was not given. The server has the bounds of the model. */
export function numberOf(args: CommandLine, name: string): number | undefined {
  const typed = args.text(name)
  if (typed === undefined) return undefined
  if (/^[0-9]{1,3}(\.[0-9]{1,6})?$/.test(typed)) return Number(typed)
  throw new UsageMistake(`--${name}: must be a number, such as 0.7`)
}

/** An instant of the past (`7d`, `12h`, or an ISO date) as the server takes it; undefined when the option was not given. */
export function pastTimestampOf(args: CommandLine, name: string, nowMs: number): string | undefined {
  const typed = args.text(name)
  if (typed === undefined) return undefined
  const instantMs = parseInstant(typed, nowMs)
  if (instantMs === null || instantMs < 0) {
    throw new UsageMistake(
      `--${name}: must be a time ago such as 7d or 12h, or an ISO date such as 2031-12-31 or 2031-12-31T18:00:00Z`,
    )
  }
  // A duration is read as a time from now; here it is a time ago.
  return toTimestamp(isTimeAgo(typed) ? Math.max(2 * nowMs - instantMs, 0) : instantMs)
}

/** Returns whether it is a length of time such as `7d`, which is another instant each time that it is typed. */
export function isTimeAgo(typed: string | undefined): boolean {
  return typed !== undefined && /^[0-9]+[mhdw]$/.test(typed)
}

/** Reads dollars such as `20` or `12.50` as whole cents; `name` stands in the refusal. */
export function readCents(typed: string, name: string): number {
  const microcents = parseUsd(typed)
  if (microcents === undefined || microcents % MICROCENTS_PER_CENT !== 0n) {
    throw new UsageMistake(`${name}: must be an amount of dollars, such as 20 or 12.50`)
  }
  return Number(microcents / MICROCENTS_PER_CENT)
}
