import { expect, test } from 'bun:test'
import type { PriceTable } from '../catalog/price.ts'
import { priceCells } from './prices.ts'

const RATE = { inputMicrocents: 1n, outputMicrocents: 2n, cachedInputMicrocents: null }
const PEAK = { inputMicrocents: 3n, outputMicrocents: 4n, cachedInputMicrocents: 1n }

const SHOWN: readonly (readonly [PriceTable, input: string, cachedInput: string, output: string])[] = [
  [{ kind: 'tokens', ...RATE }, '1', '-', '2'],
  [{ kind: 'tokens', ...PEAK }, '3', '1', '4'],
  [
    { kind: 'tokens_by_time', peak: PEAK, offPeak: RATE, peakWindows: [{ startMinute: 0, endMinute: 1 }] },
    '1, peak 3',
    '-, peak 1',
    '2, peak 4',
  ],
  [{ kind: 'image', perImageMicrocents: 5n }, '-', '-', '5 cents per image'],
  [{ kind: 'megapixel', perMegapixelMicrocents: 6n }, '-', '-', '6 cents per megapixel'],
  [{ kind: 'video_second', perSecondMicrocents: 7n, perVideoMicrocents: 8n }, '-', '-', '7 cents per second'],
]
for (const [price, input, cachedInput, output] of SHOWN) {
  test(`a table says what is paid, and for what: ${price.kind}, ${input} in`, () => {
    expect(priceCells(price, String, (amount) => `${amount} cents`)).toEqual({ input, cachedInput, output })
  })
}
