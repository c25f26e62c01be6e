import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { anyFlatPrice, anyPrice, anyTimedPrice } from '../../test/prices.ts'
import { fc } from '../../test/properties.ts'
import { DAY_MS, MINUTE_MS } from '../lib/time.ts'
import { MINUTES_PER_DAY } from './peak.ts'
import {
  centsRoundedHalfUp,
  type FlatTokenPrice,
  PRICE_MAX_MICROCENTS,
  type PriceTable,
  periodAt,
  priceFromJson,
  priceHash,
  priceToJson,
  rateAt,
  type TimedTokenPrice,
} from './price.ts'

const amount = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
const instant = fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2040, 0) })
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

test('a price is shown to the nearest cent, half a cent up', () => {
  for (const [microcents, cents] of [
    [0n, 0n],
    [499_999n, 0n],
    [500_000n, 1n],
    [1_499_999n, 1n],
    [1_500_000n, 2n],
  ] as const) {
    expect(centsRoundedHalfUp(microcents)).toBe(cents)
  }
  fc.assert(
    fc.property(amount, (microcents) => {
      const offBy = centsRoundedHalfUp(microcents) * 1_000_000n - microcents
      expect(offBy > -500_000n && offBy <= 500_000n).toBe(true)
    }),
  )
})

test('every minute of the day is on exactly one side, and its first millisecond decides', () => {
  fc.assert(
    fc.property(anyTimedPrice, instant, (price, someMs) => {
      const midnightMs = someMs - (someMs % DAY_MS)
      let peakMinutes = 0
      for (let minute = 0; minute < MINUTES_PER_DAY; minute += 1) {
        const firstMs = midnightMs + minute * MINUTE_MS
        const period = periodAt(price, firstMs)
        if (period === 'peak') peakMinutes += 1
        expect(periodAt(price, firstMs + MINUTE_MS - 1)).toBe(period)
        expect(rateAt(price, firstMs)).toBe(period === 'peak' ? price.peak : price.offPeak)
      }
      const spans = price.peakWindows.map(
        ({ startMinute, endMinute }) => (endMinute - startMinute + MINUTES_PER_DAY) % MINUTES_PER_DAY,
      )
      expect(peakMinutes).toBe(spans.reduce((sum, span) => sum + span, 0))
    }),
    { numRuns: 50 },
  )
})

test('a price without windows has one rate at every instant, and one that is not by tokens has none', () => {
  fc.assert(
    fc.property(anyPrice, instant, (price, atMs) => {
      if (price.kind === 'tokens_by_time') return
      expect(periodAt(price, atMs)).toBeNull()
      if (price.kind === 'tokens') expect(rateAt(price, atMs)).toBe(price)
      else expect(() => rateAt(price, atMs)).toThrow(/has no rate for tokens/)
    }),
  )
})

test('one price has one version, and another price another', () => {
  fc.assert(
    fc.property(anyPrice, anyPrice, (one, other) => {
      expect(hex(priceHash(one)) === hex(priceHash(other))).toBe(isDeepStrictEqual(one, other))
      expect(hex(priceHash({ ...one }))).toBe(hex(priceHash(one)))
    }),
  )
})

test('a version covers all that a charge can depend on: changing any of it makes another', () => {
  fc.assert(
    fc.property(anyTimedPrice, (price) => {
      const [first, ...rest] = price.peakWindows
      if (first === undefined) throw new Error('no windows')
      const more = (rate: TimedTokenPrice['peak']) => ({ ...rate, outputMicrocents: rate.outputMicrocents + 1n })
      const versions: PriceTable[] = [
        price,
        { ...price, peak: more(price.peak) },
        { ...price, offPeak: more(price.offPeak) },
        { ...price, peakWindows: [{ ...first, endMinute: first.startMinute }, ...rest] },
        { ...price, peakWindows: [...rest] },
        { kind: 'tokens', ...price.peak },
        { kind: 'tokens', ...price.offPeak },
      ]
      const distinct = new Set(versions.map((version) => hex(priceHash(version))))
      expect(distinct.size).toBe(isDeepStrictEqual(price.peak, price.offPeak) ? versions.length - 1 : versions.length)
    }),
  )
})

test('a price for display only is no part of the version', () => {
  const video = { kind: 'video_second', perSecondMicrocents: 5_000_000n } as const
  const hashes = [null, 1n, 40_000_000n].map((perVideoMicrocents) => hex(priceHash({ ...video, perVideoMicrocents })))
  expect(new Set(hashes).size).toBe(1)
})

/** As a database keeps it: keys in another order, with white space. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, inner]) => [key, reordered(inner)]),
  )
}

test('a stored price reads back as itself, whatever the spelling of its JSON', () => {
  fc.assert(
    fc.property(anyPrice, (price) => {
      expect(priceFromJson(priceToJson(price))).toEqual(price)
      const spelled = JSON.stringify(reordered(JSON.parse(priceToJson(price))), null, 2)
      expect(hex(priceHash(priceFromJson(spelled)))).toBe(hex(priceHash(price)))
    }),
  )
})

test('a value that is no price version is refused', () => {
  for (const json of [
    '',
    'null',
    '{}',
    '{"kind":"tokens"}',
    '{"kind":"image","per_image_microcents":-1}',
    '{"kind":"image","per_image_microcents":0.5}',
    '{"kind":"barter","goats":2}',
    priceToJson(TIMED).replace('08:00', '8:00'),
  ]) {
    expect(() => priceFromJson(json)).toThrow()
  }
})

test('the canonical JSON is JSON, holds the price exactly, and is in key order', () => {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted)
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).map(([key, inner]): [string, unknown] => [key, sorted(inner)])
    return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)))
  }
  fc.assert(
    fc.property(anyPrice, (price) => {
      expect(JSON.stringify(sorted(JSON.parse(priceToJson(price))))).toBe(priceToJson(price))
    }),
  )
  fc.assert(
    fc.property(anyFlatPrice, (table) => {
      const read = JSON.parse(priceToJson(table))
      expect(BigInt(read.input_per_1m_tokens_microcents)).toBe(table.inputMicrocents)
      expect(BigInt(read.output_per_1m_tokens_microcents)).toBe(table.outputMicrocents)
      const cached = read.cached_input_per_1m_tokens_microcents
      expect(cached === null ? null : BigInt(cached)).toBe(table.cachedInputMicrocents)
    }),
  )
})

const FLAT: FlatTokenPrice = {
  kind: 'tokens',
  inputMicrocents: 100_000_000n,
  outputMicrocents: 200_000_000n,
  cachedInputMicrocents: null,
}
const TIMED: TimedTokenPrice = {
  kind: 'tokens_by_time',
  peak: { inputMicrocents: 3n, outputMicrocents: 4n, cachedInputMicrocents: 1n },
  offPeak: { inputMicrocents: 2n, outputMicrocents: 3n, cachedInputMicrocents: null },
  peakWindows: [
    { startMinute: 480, endMinute: 720 },
    { startMinute: 1_320, endMinute: 1_440 },
  ],
}
const STORED: readonly (readonly [PriceTable, string])[] = [
  [
    FLAT,
    '{"cached_input_per_1m_tokens_microcents":null,"currency":"usd","input_per_1m_tokens_microcents":100000000,"kind":"tokens","output_per_1m_tokens_microcents":200000000}',
  ],
  [
    TIMED,
    '{"currency":"usd","kind":"tokens_by_time","off_peak":{"cached_input_per_1m_tokens_microcents":null,"input_per_1m_tokens_microcents":2,"output_per_1m_tokens_microcents":3},"peak":{"cached_input_per_1m_tokens_microcents":1,"input_per_1m_tokens_microcents":3,"output_per_1m_tokens_microcents":4},"peak_windows_utc":[{"end":"12:00","start":"08:00"},{"end":"24:00","start":"22:00"}]}',
  ],
  [{ kind: 'image', perImageMicrocents: 4n }, '{"currency":"usd","kind":"image","per_image_microcents":4}'],
  [{ kind: 'megapixel', perMegapixelMicrocents: 5n }, '{"currency":"usd","kind":"megapixel","per_mpxl_microcents":5}'],
  [
    { kind: 'video_second', perSecondMicrocents: 6n, perVideoMicrocents: 7n },
    '{"currency":"usd","kind":"video_second","per_video_second_microcents":6}',
  ],
]
for (const [price, json] of STORED) {
  test(`the version of a stored price never changes: ${price.kind}`, () => {
    expect(priceToJson(price)).toBe(json)
    expect(hex(priceHash(price))).toBe(createHash('sha256').update(json).digest('hex'))
  })
}
