import { z } from 'zod'
import type { Path, Report } from './document.ts'
import { amountOf, cents, microcents } from './loadAmount.ts'
import { loadPeakWindows, PeakWindowsShape } from './loadPeak.ts'
import type { Modality } from './model.ts'
import {
  type ImagePrice,
  PRICE_MAX_MICROCENTS,
  type PriceTable,
  type TokenPrice,
  type TokenRate,
  UNIT_PRICE_MAX_MICROCENTS,
  type VideoPrice,
} from './price.ts'
import { closed } from './shape.ts'

const tokenCents = cents(PRICE_MAX_MICROCENTS)
const tokenMicrocents = microcents(PRICE_MAX_MICROCENTS)
const unitCents = cents(UNIT_PRICE_MAX_MICROCENTS)
const unitMicrocents = microcents(UNIT_PRICE_MAX_MICROCENTS)

const RATE = {
  input_per_1m_tokens_cents: tokenCents,
  input_per_1m_tokens_microcents: tokenMicrocents,
  output_per_1m_tokens_cents: tokenCents,
  output_per_1m_tokens_microcents: tokenMicrocents,
  cached_input_per_1m_tokens_cents: tokenCents,
  cached_input_per_1m_tokens_microcents: tokenMicrocents,
}
const TIMED = { peak: closed(RATE).optional(), off_peak: closed(RATE).optional() }
const IMAGE = { per_image_cents: unitCents, per_image_microcents: unitMicrocents, per_mpxl_microcents: unitMicrocents }
const VIDEO = {
  per_video_second_cents: unitCents,
  per_video_second_microcents: unitMicrocents,
  per_video_microcents: unitMicrocents,
}

/** `pricing` as it stands in the file: the keys of the interface's Pricing, and the exact form of each. */
export const PricingShape = closed(
  {
    currency: z.literal('usd').optional(),
    ...RATE,
    ...TIMED,
    peak_windows_utc: PeakWindowsShape.optional(),
    ...IMAGE,
    ...VIDEO,
  },
  { period: "'period' is worked out from the time of day: remove it" },
)

type PricingInput = z.infer<typeof PricingShape>
type Key = keyof PricingInput

const RATE_KEYS = Object.keys(RATE) as (keyof typeof RATE)[]
const TIMED_KEYS = ['peak', 'off_peak', 'peak_windows_utc'] as const
const IMAGE_KEYS = Object.keys(IMAGE) as (keyof typeof IMAGE)[]
const VIDEO_KEYS = Object.keys(VIDEO) as (keyof typeof VIDEO)[]

/** The price a file sets, or null where something was reported. */
export function toPriceTable(pricing: PricingInput, modality: Modality, path: Path, report: Report): PriceTable | null {
  const sound = checkKeys(pricing, modality, path, report)
  const price = readPrice(pricing, modality, path, report)
  return sound ? price : null
}

function readPrice(pricing: PricingInput, modality: Modality, path: Path, report: Report): PriceTable | null {
  switch (modality) {
    case 'image':
      return toImagePrice(pricing, path, report)
    case 'video':
      return toVideoPrice(pricing, path, report)
    default:
      return toTokenPrice(pricing, modality, path, report)
  }
}

/** Each price belongs to the models that are charged by it, and there is one way to charge a model. */
function checkKeys(pricing: PricingInput, modality: Modality, path: Path, report: Report): boolean {
  let sound = true
  const refuse = (keys: readonly Key[], reason: string) => {
    for (const key of keys) {
      if (pricing[key] === undefined) continue
      report([...path, key], reason, 'key')
      sound = false
    }
  }
  const foreign = (owner: string) => `is for ${owner}, and this is not one: remove it`
  if (modality !== 'image') refuse(IMAGE_KEYS, foreign('an image model'))
  if (modality !== 'video') refuse(VIDEO_KEYS, foreign('a video model'))
  if (modality === 'image' || modality === 'video') {
    refuse([...RATE_KEYS, ...TIMED_KEYS], foreign('a model that is charged by tokens'))
  }
  if (pricing.per_image_cents !== undefined || pricing.per_image_microcents !== undefined) {
    refuse(['per_mpxl_microcents'], "can't be combined with a price per image: remove one of them")
  }
  if (isTimed(pricing)) {
    refuse(RATE_KEYS, "can't be combined with peak windows: put it under 'peak' and 'off_peak', or remove the windows")
  }
  return sound
}

function isTimed(pricing: PricingInput): boolean {
  return TIMED_KEYS.some((key) => pricing[key] !== undefined)
}

function toTokenPrice(
  pricing: PricingInput,
  modality: 'chat' | 'embedding',
  path: Path,
  report: Report,
): TokenPrice | null {
  if (!isTimed(pricing)) {
    const rate = toRate(pricing, modality, path, report)
    return rate === null ? null : { kind: 'tokens', ...rate }
  }
  const { peak, off_peak: offPeak, peak_windows_utc: given } = pricing
  for (const key of TIMED_KEYS) {
    if (pricing[key] !== undefined) continue
    report(path, `has no '${key}': a price by time of day needs all of ${TIMED_KEYS.join(', ')}`)
  }
  const read = {
    peak: peak && toRate(peak, modality, [...path, 'peak'], report),
    offPeak: offPeak && toRate(offPeak, modality, [...path, 'off_peak'], report),
    peakWindows: given && loadPeakWindows(given, [...path, 'peak_windows_utc'], report),
  }
  if (!(read.peak && read.offPeak && read.peakWindows)) return null
  return { kind: 'tokens_by_time', peak: read.peak, offPeak: read.offPeak, peakWindows: read.peakWindows }
}

function toRate(
  section: Pick<PricingInput, keyof typeof RATE>,
  modality: 'chat' | 'embedding',
  path: Path,
  report: Report,
): TokenRate | null {
  const input = amountOf(section, 'input_per_1m_tokens', path, report)
  const output = amountOf(section, 'output_per_1m_tokens', path, report)
  const cached = amountOf(section, 'cached_input_per_1m_tokens', path, report)
  if (input === 'refused' || output === 'refused' || cached === 'refused') return null
  const refuse = (reason: string) => {
    report(path, reason)
    return null
  }
  if (input === null && output === null) {
    const wanted =
      modality === 'embedding'
        ? 'input_per_1m_tokens_cents'
        : 'input_per_1m_tokens_cents and output_per_1m_tokens_cents (or the exact …_microcents of each)'
    return refuse(`has no billable price: set ${wanted}`)
  }
  if (input === null || (output === null && modality !== 'embedding')) {
    const key = `${input === null ? 'input' : 'output'}_per_1m_tokens`
    return refuse(`has no ${key.split('_')[0]} price: set ${key}_cents or ${key}_microcents (0 if it is free)`)
  }
  if (output !== null && modality === 'embedding') {
    return refuse('has an output price, but an embedding model has no output tokens: remove it')
  }
  if (cached !== null && cached > input) {
    return refuse('has a cached rate above the input rate: it is a discount, so lower it or remove it')
  }
  return { inputMicrocents: input, outputMicrocents: output ?? 0n, cachedInputMicrocents: cached }
}

function toImagePrice(pricing: PricingInput, path: Path, report: Report): ImagePrice | null {
  const perImage = amountOf(pricing, 'per_image', path, report)
  if (perImage === 'refused') return null
  if (perImage !== null) return { kind: 'image', perImageMicrocents: perImage }
  const perMegapixel = pricing.per_mpxl_microcents
  if (perMegapixel !== undefined) return { kind: 'megapixel', perMegapixelMicrocents: BigInt(perMegapixel) }
  report(path, 'has no billable price: set per_image_cents, per_image_microcents or per_mpxl_microcents')
  return null
}

function toVideoPrice(pricing: PricingInput, path: Path, report: Report): VideoPrice | null {
  const perSecond = amountOf(pricing, 'per_video_second', path, report)
  if (perSecond === 'refused') return null
  if (perSecond === null) {
    const aside = pricing.per_video_microcents === undefined ? '' : ' (per_video_microcents is for display only)'
    report(path, `has no billable price: set per_video_second_cents or per_video_second_microcents${aside}`)
    return null
  }
  const perVideo = pricing.per_video_microcents
  return {
    kind: 'video_second',
    perSecondMicrocents: perSecond,
    perVideoMicrocents: perVideo === undefined ? null : BigInt(perVideo),
  }
}
