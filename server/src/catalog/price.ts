import { createHash } from 'node:crypto'
import { z } from 'zod'

/** A cent in micro-cents, the unit of all money inside (1e-6 cent). */
export const MICROCENTS_PER_CENT = 1_000_000n

/**
 * The highest price that the settings take: ten million dollars per million tokens. With it, 2^31 tokens still cost less
 * than an int8 holds.
 */
export const PRICE_MAX_MICROCENTS = 1_000_000_000_000_000n

/** What a call is charged by: micro-cents per million tokens of each class, never negative. Immutable once in force. */
export interface PriceTable {
  readonly inputMicrocents: bigint
  /** 0 for models that put out no tokens (embeddings). */
  readonly outputMicrocents: bigint
  /** For prompt tokens that the upstream served from its cache; at most `inputMicrocents`. Null: no cached rate. */
  readonly cachedInputMicrocents: bigint | null
}

/** The prices a public `pricing` object shows for a price table. */
export interface DisplayedPrice {
  readonly inputCents: bigint
  readonly outputCents: bigint
  /** Null when there is no cached rate, or when it rounds below half a cent. */
  readonly cachedInputCents: bigint | null
  readonly cachedInputMicrocents: bigint | null
}

/** Whole cents, half a cent rounded up (M5). For amounts that are not negative. */
export function centsRoundedHalfUp(microcents: bigint): bigint {
  return (microcents + MICROCENTS_PER_CENT / 2n) / MICROCENTS_PER_CENT
}

/** What is shown in public of a price (M5): an exact cached rate always, its cents only from half a cent up. */
export function displayedPrice(price: PriceTable): DisplayedPrice {
  const cached = price.cachedInputMicrocents
  const cachedCents = cached === null ? 0n : centsRoundedHalfUp(cached)
  return {
    inputCents: centsRoundedHalfUp(price.inputMicrocents),
    outputCents: centsRoundedHalfUp(price.outputMicrocents),
    cachedInputCents: cachedCents === 0n ? null : cachedCents,
    cachedInputMicrocents: cached,
  }
}

/**
 * The canonical JSON of a price: one spelling for one price, keys in alphabetical order, no white space. Together with
 * {@link priceHash} it is the immutable price version that charges cite, so it must never change for a stored price: a
 * new kind of price gets a new `kind`.
 */
export function priceToJson(price: PriceTable): string {
  const cached = price.cachedInputMicrocents === null ? 'null' : `${price.cachedInputMicrocents}`
  return `{"cached_input_per_1m_tokens_microcents":${cached},"currency":"usd","input_per_1m_tokens_microcents":${price.inputMicrocents},"kind":"tokens","output_per_1m_tokens_microcents":${price.outputMicrocents}}`
}

/** SHA-256 of {@link priceToJson}, 32 bytes: the name of the price version. */
export function priceHash(price: PriceTable): Uint8Array {
  return new Uint8Array(createHash('sha256').update(priceToJson(price)).digest())
}

const storedAmount = z.int().min(0).transform(BigInt)
const StoredPrice = z.object({
  kind: z.literal('tokens'),
  input_per_1m_tokens_microcents: storedAmount,
  output_per_1m_tokens_microcents: storedAmount,
  cached_input_per_1m_tokens_microcents: storedAmount.nullable(),
})

/**
 * Reads a stored price version, in whatever spelling the database gives its JSON back: the inverse of
 * {@link priceToJson}. Throws on anything else.
 */
export function priceFromJson(json: string): PriceTable {
  const stored = StoredPrice.parse(JSON.parse(json))
  return {
    inputMicrocents: stored.input_per_1m_tokens_microcents,
    outputMicrocents: stored.output_per_1m_tokens_microcents,
    cachedInputMicrocents: stored.cached_input_per_1m_tokens_microcents,
  }
}
