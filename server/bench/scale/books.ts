/**
 * The books that a database is filled with. Everything follows from numbers: organization n has key n, and charge i is organization
 * (i × {@link SPREAD}) mod N's, so each has as many charges as any other, spread over all days.
 */

import { type PriceVersion, priceHash } from '../../src/catalog/price.ts'
import { BRAND } from '../../src/lib/brand.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { DAY_MS } from '../../src/lib/time.ts'

/** The size of the books. Each organization has `charges / organizations` charges. */
export interface BooksSize {
  readonly organizations: number
  readonly charges: number
  /** UTC days with charges; the last one is today. */
  readonly days: number
}

/** The mock's models that have a price; they differ in nothing but their names. */
export const FILLED_MODELS = ['mock-4x0', 'mock-5x0', 'mock-6x0', 'mock-7x0'] as const

/** Micro-cents a token. Whole, so that the price of a million divides evenly and SQL computes the same cost. */
export const INPUT_TOKEN_MICROCENTS = 100
export const OUTPUT_TOKEN_MICROCENTS = 200

export const FILLED_PRICE = {
  kind: 'tokens',
  inputMicrocents: BigInt(INPUT_TOKEN_MICROCENTS) * 1_000_000n,
  outputMicrocents: BigInt(OUTPUT_TOKEN_MICROCENTS) * 1_000_000n,
  cachedInputMicrocents: null,
} satisfies PriceVersion
export const FILLED_PRICE_HASH = priceHash(FILLED_PRICE)

/** Paid in before the first day: $100. Calls of a bench never come near its end. */
export const CREDIT_MICROCENTS = 10_000n * MICROCENTS_PER_CENT

/** A prime above any number of organizations. */
export const SPREAD = 2_654_435_761

/** Returns the API key of organization `n`, from 1 on. */
export function keyOfOrganization(n: number): string {
  return `${BRAND}_live_${String(n).padStart(24, '0')}`
}

/** SQL for the key's text, for an expression that gives `n`. */
export const KEY_TEXT = (n: string) => `'${BRAND}_live_' || lpad((${n})::text, 24, '0')`

/** SQL for the ids, which ascend with `n`, as ids of version 7 do in the order of creation. */
export const ORGANIZATION_ID = (n: string) => idOf('0192e7a0', n)
export const KEY_ID = (n: string) => idOf('0192e7a1', n)

function idOf(prefix: string, n: string): string {
  return `('${prefix}-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`
}

/** Returns the id of organization `n` as PostgreSQL prints it. */
export function organizationId(n: number): string {
  return `0192e7a0-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
}

/** A UTC day with the charges that it has: those numbered from `from` up to, but without, `to`. */
export interface FilledDay {
  readonly startMs: number
  readonly from: number
  readonly to: number
  /** Milliseconds of the day over which its charges are spread: of today, what is over. */
  readonly spanMs: number
}

/** A day that goes on ends so long ago for the bench: a charge is posted some milliseconds after its admission. */
const POSTED_MS = 1_000

/** Returns the days of books whose last day is that of `nowMs`, oldest first. */
export function filledDays({ charges, days }: BooksSize, nowMs: number): FilledDay[] {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS
  return Array.from({ length: days }, (_, index) => {
    const startMs = today - (days - 1 - index) * DAY_MS
    const from = Math.floor((charges * index) / days)
    const to = Math.floor((charges * (index + 1)) / days)
    return { startMs, from, to, spanMs: Math.max(1, Math.min(DAY_MS, nowMs - startMs) - POSTED_MS) }
  })
}
