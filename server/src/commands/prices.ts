import type { PriceTable, TokenRate } from '../catalog/price.ts'

/** The price of a model, in the words of a table's cells. */
export interface PriceCells {
  readonly input: string
  readonly cachedInput: string
  /** For a model that is not charged by tokens, its price with the unit: `$0.04 per image`. */
  readonly output: string
}

const NOTHING = '-'

/**
 * A price by the million tokens as `print` writes an amount of micro-cents, with the peak rate beside the other; one by
 * another unit in words, for which `printUnit` writes the amount with its currency.
 */
export function priceCells(
  price: PriceTable,
  print: (microcents: bigint) => string,
  printUnit: (microcents: bigint) => string,
): PriceCells {
  const per = (microcents: bigint, unit: string): PriceCells => ({
    input: NOTHING,
    cachedInput: NOTHING,
    output: `${printUnit(microcents)} per ${unit}`,
  })
  switch (price.kind) {
    case 'tokens':
      return cellsOf(price, print)
    case 'tokens_by_time': {
      const [offPeak, peak] = [cellsOf(price.offPeak, print), cellsOf(price.peak, print)]
      const both = (cell: keyof PriceCells) => `${offPeak[cell]}, peak ${peak[cell]}`
      return { input: both('input'), cachedInput: both('cachedInput'), output: both('output') }
    }
    case 'image':
      return per(price.perImageMicrocents, 'image')
    case 'megapixel':
      return per(price.perMegapixelMicrocents, 'megapixel')
    case 'video_second':
      return per(price.perSecondMicrocents, 'second')
  }
}

function cellsOf(rate: TokenRate, print: (microcents: bigint) => string): PriceCells {
  return {
    input: print(rate.inputMicrocents),
    cachedInput: rate.cachedInputMicrocents === null ? NOTHING : print(rate.cachedInputMicrocents),
    output: print(rate.outputMicrocents),
  }
}
