import { expect, test } from 'bun:test'
import { anyFlatPrice, anyPrice, anyTimedPrice } from '../../test/prices.ts'
import { fc } from '../../test/properties.ts'
import { periodAt, type TimedTokenPrice } from './price.ts'
import { PricingSchema } from './schemas.ts'
import { pricingToWire } from './wirePricing.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const instant = fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2040, 0) })

test('every price is shown as the interface describes it', () => {
  fc.assert(
    fc.property(anyPrice, instant, (price, atMs) => {
      const shown = pricingToWire(price, 'chat', atMs)
      expect(PricingSchema.strict().safeParse(JSON.parse(JSON.stringify(shown))).success).toBe(true)
    }),
  )
})

test('a cached rate is always shown exactly, and in cents from half a cent up', () => {
  fc.assert(
    fc.property(anyFlatPrice, (table) => {
      const shown = pricingToWire(table, 'chat', NOON_MS)
      const cached = table.cachedInputMicrocents
      expect(shown.cached_input_per_1m_tokens_microcents).toBe(cached === null ? undefined : Number(cached))
      expect(shown.cached_input_per_1m_tokens_cents === undefined).toBe(cached === null || cached < 500_000n)
    }),
  )
})

test('only a price by time of day has a schedule and a period, and its flat fields are the rate in effect', () => {
  fc.assert(
    fc.property(anyTimedPrice, instant, (price, atMs) => {
      const shown = pricingToWire(price, 'chat', atMs)
      const period = periodAt(price, atMs)
      expect(shown.period === period).toBe(true)
      const side = period === 'peak' ? price.peak : price.offPeak
      const { period: _, peak, off_peak: offPeak, peak_windows_utc: windows, ...flat } = shown
      expect(flat).toEqual(pricingToWire({ kind: 'tokens', ...side }, 'chat', atMs))
      expect(period === 'peak' ? peak : offPeak).toMatchObject({
        input_per_1m_tokens_microcents: Number(side.inputMicrocents),
        output_per_1m_tokens_microcents: Number(side.outputMicrocents),
        input_per_1m_tokens_cents: flat.input_per_1m_tokens_cents,
      })
      expect(windows).toHaveLength(price.peakWindows.length)
    }),
  )
  fc.assert(
    fc.property(anyFlatPrice, instant, (price, atMs) => {
      const shown = pricingToWire(price, 'chat', atMs)
      for (const key of ['period', 'peak', 'off_peak', 'peak_windows_utc']) expect(shown).not.toHaveProperty(key)
    }),
  )
})

const TIMED: TimedTokenPrice = {
  kind: 'tokens_by_time',
  peak: { inputMicrocents: 1_500_000n, outputMicrocents: 4_000_000n, cachedInputMicrocents: 500_000n },
  offPeak: { inputMicrocents: 499_999n, outputMicrocents: 0n, cachedInputMicrocents: 499_999n },
  peakWindows: [
    { startMinute: 480, endMinute: 720 },
    { startMinute: 1_320, endMinute: 1_440 },
  ],
}

test('a price by time of day, on either side of its edges', () => {
  const shared = {
    currency: 'usd',
    peak: {
      input_per_1m_tokens_cents: 2,
      input_per_1m_tokens_microcents: 1_500_000,
      output_per_1m_tokens_cents: 4,
      output_per_1m_tokens_microcents: 4_000_000,
      cached_input_per_1m_tokens_cents: 1,
      cached_input_per_1m_tokens_microcents: 500_000,
    },
    off_peak: {
      input_per_1m_tokens_cents: 0,
      input_per_1m_tokens_microcents: 499_999,
      output_per_1m_tokens_cents: 0,
      output_per_1m_tokens_microcents: 0,
      cached_input_per_1m_tokens_microcents: 499_999,
    },
    peak_windows_utc: [
      { start: '08:00', end: '12:00' },
      { start: '22:00', end: '24:00' },
    ],
  } as const
  const peak = {
    ...shared,
    period: 'peak',
    input_per_1m_tokens_cents: 2,
    output_per_1m_tokens_cents: 4,
    cached_input_per_1m_tokens_cents: 1,
    cached_input_per_1m_tokens_microcents: 500_000,
  } as const
  const offPeak = {
    ...shared,
    period: 'off_peak',
    input_per_1m_tokens_cents: 0,
    output_per_1m_tokens_cents: 0,
    cached_input_per_1m_tokens_microcents: 499_999,
  } as const
  expect(pricingToWire(TIMED, 'chat', NOON_MS - 1)).toEqual(peak)
  expect(pricingToWire(TIMED, 'chat', NOON_MS)).toEqual(offPeak)
  expect(pricingToWire(TIMED, 'chat', Date.UTC(2030, 0, 15, 23, 59, 59, 999))).toEqual(peak)
  expect(pricingToWire(TIMED, 'chat', Date.UTC(2030, 0, 16))).toEqual(offPeak)
})

test('a model that puts out no tokens shows no price for them', () => {
  const shown = JSON.stringify(pricingToWire(TIMED, 'embedding', NOON_MS))
  expect(shown).toContain('input_per_1m_tokens_microcents')
  expect(shown).not.toContain('output_per_1m')
})

test('images and videos show the exact price and whole cents; a clip is a figure beside it', () => {
  expect(pricingToWire({ kind: 'image', perImageMicrocents: 3_500_000n }, 'image', NOON_MS)).toEqual({
    currency: 'usd',
    per_image_cents: 4,
    per_image_microcents: 3_500_000,
  })
  expect(pricingToWire({ kind: 'megapixel', perMegapixelMicrocents: 7n }, 'image', NOON_MS)).toEqual({
    currency: 'usd',
    per_mpxl_microcents: 7,
  })
  const video = { kind: 'video_second', perSecondMicrocents: 5_000_000n } as const
  const second = { currency: 'usd', per_video_second_cents: 5, per_video_second_microcents: 5_000_000 } as const
  expect(pricingToWire({ ...video, perVideoMicrocents: null }, 'video', NOON_MS)).toEqual(second)
  expect(pricingToWire({ ...video, perVideoMicrocents: 40n }, 'video', NOON_MS)).toEqual({
    ...second,
    per_video_microcents: 40,
  })
})
