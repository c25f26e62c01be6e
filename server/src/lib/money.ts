/** Money is a whole number of micro-cents in a bigint. Every rounding is named. */

/** A cent in micro-cents, the unit of all money inside (1e-6 cent). */
export const MICROCENTS_PER_CENT = 1_000_000n
export const MICROCENTS_PER_DOLLAR = 100n * MICROCENTS_PER_CENT

/** Ten million dollars: the largest amount that the settings take. Exact as a JavaScript number too. */
export const SETTING_MAX_MICROCENTS = 10_000_000n * MICROCENTS_PER_DOLLAR

/** a / b rounded towards positive infinity. `b` is positive. */
export function divideRoundingUp(a: bigint, b: bigint): bigint {
  const quotient = a / b
  return a % b > 0n ? quotient + 1n : quotient
}

/** a / b rounded towards negative infinity. `b` is positive. */
export function divideRoundingDown(a: bigint, b: bigint): bigint {
  const quotient = a / b
  return a % b < 0n ? quotient - 1n : quotient
}

/** Cents for display: rounded down, so that a balance never looks larger than it is (B1). */
export function toCentsRoundingDown(microcents: bigint): number {
  return Number(divideRoundingDown(microcents, MICROCENTS_PER_CENT))
}

/** Cents with their fraction, for logs: not exact beyond 15 digits. */
export function toCentsOfLog(microcents: bigint): number {
  return Number(microcents) / Number(MICROCENTS_PER_CENT)
}

export function largest(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

export function smallest(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
