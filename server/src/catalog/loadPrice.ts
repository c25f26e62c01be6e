import { z } from 'zod'
import type { Path, Report } from './document.ts'
import type { Modality } from './model.ts'
import { centsRoundedHalfUp, MICROCENTS_PER_CENT, PRICE_MAX_MICROCENTS, type PriceTable } from './price.ts'
import { closed, wholeNumber } from './shape.ts'

const MICROCENTS_MAX = Number(PRICE_MAX_MICROCENTS)
const CENTS_MAX = MICROCENTS_MAX / Number(MICROCENTS_PER_CENT)

const NEGATIVE = 'must not be negative: a price below zero would pay the caller'

const cents = wholeNumber(
  'must be a whole number of cents: for a fraction of a cent use the key that ends in _microcents (1 cent = 1000000)',
)
  .min(0, NEGATIVE)
  .max(CENTS_MAX)
  .optional()
const microcents = wholeNumber('must be a whole number of micro-cents (1 cent = 1000000)')
  .min(0, NEGATIVE)
  .max(MICROCENTS_MAX)
  .optional()

/** Keys that no endpoint charges by, and whose they are. Removed one by one as the endpoints come. */
const NOT_YET_CHARGED: Readonly<Record<string, string>> = {
  per_image_cents: 'image',
  per_image_microcents: 'image',
  per_mpxl_microcents: 'megapixel',
  per_video_microcents: 'video',
  per_video_second_cents: 'second of video',
  per_video_second_microcents: 'second of video',
  peak: 'time of day',
  off_peak: 'time of day',
  peak_windows_utc: 'time of day',
}

/** `pricing` as it stands in the file: the keys of the interface's Pricing, and the exact form of each. */
export const PricingShape = closed(
  {
    currency: z.literal('usd').optional(),
    input_per_1m_tokens_cents: cents,
    input_per_1m_tokens_microcents: microcents,
    output_per_1m_tokens_cents: cents,
    output_per_1m_tokens_microcents: microcents,
    cached_input_per_1m_tokens_cents: cents,
    cached_input_per_1m_tokens_microcents: microcents,
    per_image_cents: cents,
    per_image_microcents: microcents,
    per_mpxl_microcents: microcents,
    per_video_microcents: microcents,
    per_video_second_cents: cents,
    per_video_second_microcents: microcents,
    peak: z.unknown().optional(),
    off_peak: z.unknown().optional(),
    peak_windows_utc: z.unknown().optional(),
  },
  { period: "'period' is worked out from the time of day: remove it" },
)

export type PricingInput = z.infer<typeof PricingShape>

type TokenClass = 'input' | 'output' | 'cached_input'

/** The price a file sets, or null where something was reported. */
export function toPriceTable(pricing: PricingInput, modality: Modality, path: Path, report: Report): PriceTable | null {
  const soundForm = checkForm(pricing, path, report)
  const input = amountOf(pricing, 'input', path, report)
  const output = amountOf(pricing, 'output', path, report)
  const cached = amountOf(pricing, 'cached_input', path, report)
  if (input === 'refused' || output === 'refused' || cached === 'refused' || !soundForm) return null
  if (input === null && output === null) {
    report(path, `has no billable price: set ${wanted(modality)}`)
    return null
  }
  if (input === null || (output === null && modality !== 'embedding')) {
    const missing = input === null ? 'input' : 'output'
    report(
      path,
      `has no ${missing} price: set ${missing}_per_1m_tokens_cents or ${missing}_per_1m_tokens_microcents (0 if it is free)`,
    )
    return null
  }
  if (output !== null && modality === 'embedding') {
    report(path, 'has an output price, and an embedding model puts out no tokens: remove it')
    return null
  }
  if (cached !== null && cached > input) {
    report(path, 'has a cached rate above the input rate: it is a discount, so lower it or remove it')
    return null
  }
  return { inputMicrocents: input, outputMicrocents: output ?? 0n, cachedInputMicrocents: cached }
}

function wanted(modality: Modality): string {
  return modality === 'embedding'
    ? 'input_per_1m_tokens_cents'
    : 'input_per_1m_tokens_cents and output_per_1m_tokens_cents (or the exact …_microcents of each)'
}

function checkForm(pricing: PricingInput, path: Path, report: Report): boolean {
  const image = pricing.per_image_cents !== undefined || pricing.per_image_microcents !== undefined
  if (image && pricing.per_mpxl_microcents !== undefined) {
    report([...path, 'per_mpxl_microcents'], 'stands beside a price per image: a model has one or the other', 'key')
  }
  let sound = true
  for (const [key, unit] of Object.entries(NOT_YET_CHARGED)) {
    if (!Object.hasOwn(pricing, key) || pricing[key as keyof PricingInput] === undefined) continue
    report([...path, key], `no endpoint charges by ${unit} yet: remove it, and price the model by tokens`, 'key')
    sound = false
  }
  return sound
}

function amountOf(pricing: PricingInput, tokens: TokenClass, path: Path, report: Report): bigint | null | 'refused' {
  const rounded = pricing[`${tokens}_per_1m_tokens_cents`]
  const exact = pricing[`${tokens}_per_1m_tokens_microcents`]
  if (exact === undefined) return rounded === undefined ? null : BigInt(rounded) * MICROCENTS_PER_CENT
  const shown = centsRoundedHalfUp(BigInt(exact))
  if (rounded === undefined || shown === BigInt(rounded)) return BigInt(exact)
  const key = `${tokens}_per_1m_tokens_cents`
  report(
    [...path, key],
    `disagrees with ${tokens}_per_1m_tokens_microcents, which is ${shown} cents: remove one of them`,
  )
  return 'refused'
}
