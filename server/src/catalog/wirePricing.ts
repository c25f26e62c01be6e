import type { Modality } from './model.ts'
import { type PeakWindow, printTimeOfDay } from './peak.ts'
import { centsRoundedHalfUp, type Period, type PriceTable, periodAt, rateAt, type TokenRate } from './price.ts'

/** The rate of a `Pricing` that is in effect. */
interface WireFlatRate {
  input_per_1m_tokens_cents: number
  output_per_1m_tokens_cents?: number
  cached_input_per_1m_tokens_cents?: number
  cached_input_per_1m_tokens_microcents?: number
}

/** A `ModelRate` of the interface. */
interface WireModelRate extends WireFlatRate {
  input_per_1m_tokens_microcents: number
  output_per_1m_tokens_microcents?: number
}

/** A `pricing` object of the interface. */
export interface WirePricing extends Partial<WireFlatRate> {
  currency: 'usd'
  per_image_cents?: number
  per_image_microcents?: number
  per_mpxl_microcents?: number
  per_video_microcents?: number
  per_video_second_cents?: number
  per_video_second_microcents?: number
  off_peak?: WireModelRate
  peak?: WireModelRate
  peak_windows_utc?: readonly { readonly start: string; readonly end: string }[]
  period?: Period
}

/** A price as clients see it at an instant, in milliseconds since the epoch: cents are rounded half up (M5). */
export function pricingToWire(price: PriceTable, modality: Modality, instantMs: number): WirePricing {
  const hasOutput = modality !== 'embedding'
  switch (price.kind) {
    case 'tokens':
      return { currency: 'usd', ...flatToWire(price, hasOutput) }
    case 'tokens_by_time': {
      const period = periodAt(price, instantMs)
      return {
        currency: 'usd',
        ...flatToWire(rateAt(price, instantMs), hasOutput),
        off_peak: rateToWire(price.offPeak, hasOutput),
        peak: rateToWire(price.peak, hasOutput),
        peak_windows_utc: price.peakWindows.map(windowToWire),
        ...(period !== null && { period }),
      }
    }
    case 'image':
      return {
        currency: 'usd',
        per_image_cents: shownCents(price.perImageMicrocents),
        per_image_microcents: Number(price.perImageMicrocents),
      }
    case 'megapixel':
      return { currency: 'usd', per_mpxl_microcents: Number(price.perMegapixelMicrocents) }
    case 'video_second':
      return {
        currency: 'usd',
        ...(price.perVideoMicrocents !== null && { per_video_microcents: Number(price.perVideoMicrocents) }),
        per_video_second_cents: shownCents(price.perSecondMicrocents),
        per_video_second_microcents: Number(price.perSecondMicrocents),
      }
  }
}

function flatToWire(rate: TokenRate, hasOutput: boolean): WireFlatRate {
  const cached = rate.cachedInputMicrocents
  const cachedCents = cached === null ? 0 : shownCents(cached)
  return {
    input_per_1m_tokens_cents: shownCents(rate.inputMicrocents),
    ...(hasOutput && { output_per_1m_tokens_cents: shownCents(rate.outputMicrocents) }),
    // Left out below half a cent: nothing would read as free.
    ...(cachedCents > 0 && { cached_input_per_1m_tokens_cents: cachedCents }),
    ...(cached !== null && { cached_input_per_1m_tokens_microcents: Number(cached) }),
  }
}

function rateToWire(rate: TokenRate, hasOutput: boolean): WireModelRate {
  return {
    ...flatToWire(rate, hasOutput),
    input_per_1m_tokens_microcents: Number(rate.inputMicrocents),
    ...(hasOutput && { output_per_1m_tokens_microcents: Number(rate.outputMicrocents) }),
  }
}

function windowToWire({ startMinute, endMinute }: PeakWindow): { start: string; end: string } {
  return { start: printTimeOfDay(startMinute), end: printTimeOfDay(endMinute) }
}

function shownCents(microcents: bigint): number {
  return Number(centsRoundedHalfUp(microcents))
}
