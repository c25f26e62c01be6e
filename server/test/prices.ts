/** Prices of every kind, for property tests. */

import { MINUTES_PER_DAY, type PeakWindow } from '../src/catalog/peak.ts'
import {
  type FlatTokenPrice,
  PRICE_MAX_MICROCENTS,
  type PriceTable,
  type TimedTokenPrice,
  type TokenRate,
  UNIT_PRICE_MAX_MICROCENTS,
} from '../src/catalog/price.ts'
import { fc } from './properties.ts'

const amount = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
const unitAmount = fc.bigInt({ min: 0n, max: UNIT_PRICE_MAX_MICROCENTS })

/** Plain objects only, as the code makes them: a deep comparison tells an object without a prototype from one with. */
const PLAIN = { noNullPrototype: true }

/** A cached rate is a discount. */
const anyRate: fc.Arbitrary<TokenRate> = fc
  .record({ inputMicrocents: amount, outputMicrocents: amount, cachedShare: fc.option(fc.bigInt(0n, 1_000n)) }, PLAIN)
  .map(({ cachedShare, ...rate }) => ({
    ...rate,
    cachedInputMicrocents: cachedShare === null ? null : (rate.inputMicrocents * cachedShare) / 1_000n,
  }))

/** One to four windows, in the order of their starts, that share no minute; the last may wrap midnight. */
const anyWindows: fc.Arbitrary<readonly PeakWindow[]> = fc
  .uniqueArray(fc.nat({ max: MINUTES_PER_DAY - 1 }), { minLength: 2, maxLength: 8 })
  .map((minutes) => {
    const sorted = minutes.toSorted((one, other) => one - other)
    // Cut the day at these minutes; every second piece is peak. The last piece may run over midnight.
    const windows: PeakWindow[] = []
    for (let index = 0; index + 1 < sorted.length; index += 2) {
      windows.push({ startMinute: sorted[index] ?? 0, endMinute: sorted[index + 1] ?? 0 })
    }
    const [first] = sorted
    const last = sorted.at(-1)
    if (sorted.length % 2 === 1 && first !== undefined && last !== undefined) {
      windows.push({ startMinute: last, endMinute: first === 0 ? MINUTES_PER_DAY : first })
    }
    return windows
  })

export const anyFlatPrice: fc.Arbitrary<FlatTokenPrice> = anyRate.map((rate) => ({ kind: 'tokens', ...rate }))

export const anyTimedPrice: fc.Arbitrary<TimedTokenPrice> = fc.record(
  { kind: fc.constant('tokens_by_time'), peak: anyRate, offPeak: anyRate, peakWindows: anyWindows },
  PLAIN,
)

export const anyPrice: fc.Arbitrary<PriceTable> = fc.oneof(
  anyFlatPrice,
  anyTimedPrice,
  fc.record({ kind: fc.constant('image' as const), perImageMicrocents: unitAmount }, PLAIN),
  fc.record({ kind: fc.constant('megapixel' as const), perMegapixelMicrocents: unitAmount }, PLAIN),
  fc.record(
    {
      kind: fc.constant('video_second' as const),
      perSecondMicrocents: unitAmount,
      perVideoMicrocents: fc.constant(null),
    },
    PLAIN,
  ),
)
