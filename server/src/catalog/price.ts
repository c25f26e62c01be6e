import { createHash } from 'node:crypto'
import { z } from 'zod'
import { MICROCENTS_PER_CENT, SETTING_MAX_MICROCENTS } from '../lib/money.ts'
import { isPeak, minuteOfDay, type PeakWindow, parseTimeOfDay, printTimeOfDay } from './peak.ts'

/**
 * The highest price that the settings take: ten million dollars per million tokens. With it, 2^31 tokens still cost less
 * than an int8 holds.
 */
export const PRICE_MAX_MICROCENTS = SETTING_MAX_MICROCENTS

/**
 * The highest price of an image, a megapixel, a second or a clip: a thousand dollars. With it, 90 million of them still
 * cost less than an int8 holds.
 */
export const UNIT_PRICE_MAX_MICROCENTS = 100_000_000_000n

/** The prices of tokens at one instant: micro-cents per million tokens of each class, never negative. */
export interface TokenRate {
  readonly inputMicrocents: bigint
  /** 0 for models that put out no tokens (embeddings). */
  readonly outputMicrocents: bigint
  /** For prompt tokens that the provider served from its cache; at most `inputMicrocents`. Null: no cached rate. */
  readonly cachedInputMicrocents: bigint | null
}

/** By tokens, at one rate the whole day. */
export interface FlatTokenPrice extends TokenRate {
  readonly kind: 'tokens'
}

/** By tokens, at one rate within the windows and another outside of them. */
export interface TimedTokenPrice {
  readonly kind: 'tokens_by_time'
  readonly peak: TokenRate
  readonly offPeak: TokenRate
  /** At least one, in the order of their starts; no two share a minute. */
  readonly peakWindows: readonly PeakWindow[]
}

export type TokenPrice = FlatTokenPrice | TimedTokenPrice

/** By the image. */
interface PerImagePrice {
  readonly kind: 'image'
  readonly perImageMicrocents: bigint
}

/** By the million pixels put out. */
interface PerMegapixelPrice {
  readonly kind: 'megapixel'
  readonly perMegapixelMicrocents: bigint
}

export type ImagePrice = PerImagePrice | PerMegapixelPrice

/** By the second of video put out. */
export interface VideoPrice {
  readonly kind: 'video_second'
  readonly perSecondMicrocents: bigint
  /**
   * The price of a whole clip, for display alone: no charge depends on it, so it is no part of the version. Null:
   * none shown.
   */
  readonly perVideoMicrocents: bigint | null
}

/** By the time that an instance lives. */
export interface InstancePrice {
  readonly kind: 'instance_hour'
  /** Of one GPU. */
  readonly perGpuHourMicrocents: bigint
}

/** The price of calls to a model. Immutable once in force; all amounts are micro-cents and never negative. */
export type PriceTable = TokenPrice | ImagePrice | VideoPrice

/** The price that a charge is computed by: that of a call, or of an instance. */
export type PriceVersion = PriceTable | InstancePrice

/** Which side of a schedule an instant is on; null for a price that does not depend on the time of day. */
export type Period = 'peak' | 'off_peak'

export function periodAt(price: PriceTable, instantMs: number): Period | null {
  if (price.kind !== 'tokens_by_time') return null
  return isPeak(price.peakWindows, minuteOfDay(instantMs)) ? 'peak' : 'off_peak'
}

/**
 * The rate of a price by tokens at an instant, in milliseconds since the epoch. A call's instant is that of its
 * admission, so that its price version and `admitted_at` alone say what it was charged by. Throws where the price is not
 * by tokens: the settings give chat and embedding models no other.
 */
export function rateAt(price: PriceVersion, instantMs: number): TokenRate {
  if (price.kind === 'tokens') return price
  if (price.kind === 'tokens_by_time') return periodAt(price, instantMs) === 'peak' ? price.peak : price.offPeak
  throw new Error(`a price by ${price.kind} has no rate for tokens`)
}

/** The price of an image model. Throws for others: the settings give image models none. */
export function imagePriceOf(price: PriceVersion): ImagePrice {
  if (price.kind === 'image' || price.kind === 'megapixel') return price
  throw new Error(`a price by ${price.kind} is none of images`)
}

/** The price of a video model. Throws for others: the settings give video models none. */
export function videoPriceOf(price: PriceVersion): VideoPrice {
  if (price.kind === 'video_second') return price
  throw new Error(`a price by ${price.kind} is none of videos`)
}

/** Whole cents, half a cent rounded up (M5). For amounts that are not negative. */
export function centsRoundedHalfUp(microcents: bigint): bigint {
  return (microcents + MICROCENTS_PER_CENT / 2n) / MICROCENTS_PER_CENT
}

/**
 * The canonical JSON of a price: one spelling for one price, keys in alphabetical order, no white space, and all that a
 * charge can depend on. Together with {@link priceHash} it is the immutable price version that charges cite, so it must
 * never change for a stored price: a new kind of price gets a new `kind`.
 */
export function priceToJson(price: PriceVersion): string {
  switch (price.kind) {
    case 'tokens':
      return `{${cachedToJson(price)},"currency":"usd",${inputToJson(price)},"kind":"tokens",${outputToJson(price)}}`
    case 'tokens_by_time': {
      const rate = (side: TokenRate) => `{${cachedToJson(side)},${inputToJson(side)},${outputToJson(side)}}`
      const windows = price.peakWindows.map(
        ({ startMinute, endMinute }) =>
          `{"end":"${printTimeOfDay(endMinute)}","start":"${printTimeOfDay(startMinute)}"}`,
      )
      return `{"currency":"usd","kind":"tokens_by_time","off_peak":${rate(price.offPeak)},"peak":${rate(price.peak)},"peak_windows_utc":[${windows.join(',')}]}`
    }
    case 'image':
      return `{"currency":"usd","kind":"image","per_image_microcents":${price.perImageMicrocents}}`
    case 'megapixel':
      return `{"currency":"usd","kind":"megapixel","per_mpxl_microcents":${price.perMegapixelMicrocents}}`
    case 'video_second':
      return `{"currency":"usd","kind":"video_second","per_video_second_microcents":${price.perSecondMicrocents}}`
    case 'instance_hour':
      return `{"currency":"usd","kind":"instance_hour","per_gpu_hour_microcents":${price.perGpuHourMicrocents}}`
  }
}

const cachedToJson = ({ cachedInputMicrocents }: TokenRate) =>
  `"cached_input_per_1m_tokens_microcents":${cachedInputMicrocents ?? 'null'}`
const inputToJson = ({ inputMicrocents }: TokenRate) => `"input_per_1m_tokens_microcents":${inputMicrocents}`
const outputToJson = ({ outputMicrocents }: TokenRate) => `"output_per_1m_tokens_microcents":${outputMicrocents}`

/** SHA-256 of {@link priceToJson}, 32 bytes: the name of the price version. */
export function priceHash(price: PriceVersion): Uint8Array {
  return new Uint8Array(createHash('sha256').update(priceToJson(price)).digest())
}

const storedAmount = z.int().min(0).transform(BigInt)
const storedTime = z.string().transform((text) => {
  const minute = parseTimeOfDay(text)
  if (minute === null) throw new Error('a stored price holds a time of day that is none')
  return minute
})
const storedRate = {
  input_per_1m_tokens_microcents: storedAmount,
  output_per_1m_tokens_microcents: storedAmount,
  cached_input_per_1m_tokens_microcents: storedAmount.nullable(),
}
const StoredPrice = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('tokens'), ...storedRate }),
  z.object({
    kind: z.literal('tokens_by_time'),
    peak: z.object(storedRate),
    off_peak: z.object(storedRate),
    peak_windows_utc: z.array(z.object({ start: storedTime, end: storedTime })),
  }),
  z.object({ kind: z.literal('image'), per_image_microcents: storedAmount }),
  z.object({ kind: z.literal('megapixel'), per_mpxl_microcents: storedAmount }),
  z.object({ kind: z.literal('video_second'), per_video_second_microcents: storedAmount }),
  z.object({ kind: z.literal('instance_hour'), per_gpu_hour_microcents: storedAmount }),
])

/**
 * Reads a stored price version, in whatever spelling the database gives its JSON back: the inverse of
 * {@link priceToJson}. Throws on anything else.
 */
export function priceFromJson(json: string): PriceVersion {
  const stored = StoredPrice.parse(JSON.parse(json))
  switch (stored.kind) {
    case 'tokens':
      return { kind: 'tokens', ...rateFrom(stored) }
    case 'tokens_by_time':
      return {
        kind: 'tokens_by_time',
        peak: rateFrom(stored.peak),
        offPeak: rateFrom(stored.off_peak),
        peakWindows: stored.peak_windows_utc.map(({ start, end }) => ({ startMinute: start, endMinute: end })),
      }
    case 'image':
      return { kind: 'image', perImageMicrocents: stored.per_image_microcents }
    case 'megapixel':
      return { kind: 'megapixel', perMegapixelMicrocents: stored.per_mpxl_microcents }
    case 'video_second':
      return { kind: 'video_second', perSecondMicrocents: stored.per_video_second_microcents, perVideoMicrocents: null }
    case 'instance_hour':
      return { kind: 'instance_hour', perGpuHourMicrocents: stored.per_gpu_hour_microcents }
  }
}

function rateFrom(stored: z.infer<z.ZodObject<typeof storedRate>>): TokenRate {
  return {
    inputMicrocents: stored.input_per_1m_tokens_microcents,
    outputMicrocents: stored.output_per_1m_tokens_microcents,
    cachedInputMicrocents: stored.cached_input_per_1m_tokens_microcents,
  }
}
