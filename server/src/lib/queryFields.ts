/** Schemas of query parameters that are no plain text: all that a query has is text. */

import { z } from 'zod'
import { parseTimestamp } from './instant.ts'

/** Digits as JSON and people write a number: `0x10`, `1e1`, `10.0`, ` 5`, `+7` and `007` are other texts. */
const WHOLE_NUMBER = /^(?:0|[1-9]\d{0,15})$/

/** Returns the schema of an optional whole number from `least`, at least 0, to `most`. It reads the parameter into a number. */
export function wholeNumberField(least: number, most: number, description: string) {
  return z
    .string()
    .refine((text) => WHOLE_NUMBER.test(text) && Number(text) >= least && Number(text) <= most, {
      error: `must be a whole number from ${least} to ${most}, written in digits alone`,
    })
    .transform(Number)
    .optional()
    .meta({ description, override: { type: 'integer', minimum: least, maximum: most } })
}

/** The offset of a timestamp whose `+` was read as a space, as a query reads every `+` that is not encoded. */
const LOST_PLUS = /\d \d\d:\d\d$/

const NO_TIMESTAMP = 'must be a date and time with an offset, such as 2031-05-01T00:00:00Z'

/** Returns the schema of an RFC 3339 timestamp from `leastMs` up to, and without, `endMs`, which are `bounds` in words. */
export function timestampField(leastMs: number, endMs: number, bounds: string) {
  return z
    .string()
    .refine((text) => parseTimestamp(text) !== null, {
      abort: true,
      error: ({ input }) =>
        typeof input === 'string' && LOST_PLUS.test(input)
          ? `${NO_TIMESTAMP}; the '+' of its offset arrived as a space: in a URL, write it as %2B`
          : NO_TIMESTAMP,
    })
    .refine(
      (text) => {
        const instantMs = parseTimestamp(text)
        return instantMs !== null && instantMs >= leastMs && instantMs < endMs
      },
      { error: `must be an instant ${bounds}` },
    )
    .meta({ format: 'date-time' })
}
