import { parseInstant } from '../lib/instant.ts'
import { type Invocation, type OptionSpec, UsageFailure } from './command.ts'

/** The options with which lists are bounded. */

/** More rows are read by several commands, each with its own --end. */
const LIMIT_MAX = 1_000
const LIMIT_PRESET = 50

export const LIMIT_OPTION: OptionSpec = {
  name: 'limit',
  value: 'N',
  summary: `how many, 1 to ${LIMIT_MAX}`,
  preset: `${LIMIT_PRESET}`,
}

export const END_OPTION: OptionSpec = {
  name: 'end',
  value: 'WHEN',
  summary: 'up to, and without: a time ago (7d) or an ISO date; now when left out',
}

/** Reads `--limit`; `most` where it is smaller than for lists of rows. */
export function limitOf(invocation: Invocation, most = LIMIT_MAX): number {
  const typed = invocation.text('limit') ?? `${LIMIT_PRESET}`
  const limit = /^[0-9]{1,4}$/.test(typed) ? Number(typed) : 0
  if (limit >= 1 && limit <= most) return limit
  throw new UsageFailure(`--limit "${typed}" is not a number of rows: use 1 to ${most}`)
}

/** Reads an instant of the past: `7d`, `12h`, or an ISO date. Null when the option was not given. */
export function pastInstantOf(invocation: Invocation, option: 'start' | 'end' | 'since', nowMs: number): number | null {
  const typed = invocation.text(option)
  if (typed === undefined) return null
  const instantMs = parseInstant(typed, nowMs)
  if (instantMs === null || instantMs < 0) {
    throw new UsageFailure(
      `--${option} "${typed}" is not understood: use a time ago such as 7d or 12h, or an ISO date such as 2031-12-31 or 2031-12-31T18:00:00Z`,
    )
  }
  // A duration is read as a time from now; here it is a time ago.
  return /^[0-9]+[mhdw]$/.test(typed) ? Math.max(2 * nowMs - instantMs, 0) : instantMs
}
