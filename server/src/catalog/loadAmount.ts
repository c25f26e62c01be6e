import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import type { Path, Report } from './document.ts'
import { centsRoundedHalfUp } from './price.ts'
import { wholeNumber } from './shape.ts'

/** An amount of money in the file: in whole cents or, exactly, in micro-cents. */

const NEGATIVE = 'must not be negative: a price below zero would pay the caller'

/** A key that ends in `_cents`. */
export function cents(maxMicrocents: bigint) {
  return wholeNumber(
    'must be a whole number of cents: for a fraction of a cent use the key that ends in _microcents (1 cent = 1000000)',
  )
    .min(0, NEGATIVE)
    .max(Number(maxMicrocents / MICROCENTS_PER_CENT))
    .optional()
}

/** A key that ends in `_microcents`. */
export function microcents(maxMicrocents: bigint) {
  return wholeNumber('must be a whole number of micro-cents (1 cent = 1000000)')
    .min(0, NEGATIVE)
    .max(Number(maxMicrocents))
    .optional()
}

type Section<Name extends string> = {
  readonly [Key in `${Name}_cents` | `${Name}_microcents`]?: number | undefined
}

/**
 * The amount that `section` sets, in micro-cents: the exact form where there is one, else the cents. Null where there is
 * neither; `refused`, and reported, where the cents are not the exact form rounded half up.
 */
export function amountOf<Name extends string>(
  section: Section<Name>,
  name: Name,
  path: Path,
  report: Report,
): bigint | null | 'refused' {
  const rounded: number | undefined = section[`${name}_cents`]
  const exact: number | undefined = section[`${name}_microcents`]
  if (exact === undefined) return rounded === undefined ? null : BigInt(rounded) * MICROCENTS_PER_CENT
  const shown = centsRoundedHalfUp(BigInt(exact))
  if (rounded === undefined || shown === BigInt(rounded)) return BigInt(exact)
  report([...path, `${name}_cents`], `disagrees with ${name}_microcents, which is ${shown} cents: remove one of them`)
  return 'refused'
}
