import { MICROCENTS_PER_DOLLAR } from './money.ts'

/** Decimals of a dollar that a micro-cent resolves. */
const DECIMALS = 8
/** A thousand million dollars; ten of them fit the column. More is a slip of the finger. */
const DOLLARS_MAX = 1_000_000_000n
const USD = /^\$?([0-9]{1,12})(?:\.([0-9]{1,8}))?$/

/**
 * Reads an amount of US dollars such as `50`, `0.25` or `$12.5` exactly, as micro-cents. Undefined when it is anything
 * else: negative, nothing at all, finer than a micro-cent (8 decimals), or over a thousand million dollars.
 */
export function parseUsd(text: string): bigint | undefined {
  const [, dollars, fraction = ''] = USD.exec(text) ?? []
  if (dollars === undefined) return undefined
  const microcents = BigInt(dollars) * MICROCENTS_PER_DOLLAR + BigInt(fraction.padEnd(DECIMALS, '0'))
  return microcents > 0n && microcents <= DOLLARS_MAX * MICROCENTS_PER_DOLLAR ? microcents : undefined
}

/** The same with a sign before it: `-5.00`, `+5`, `-$0.25`. */
export function parseSignedUsd(text: string): bigint | undefined {
  const size = parseUsd(text.replace(/^[+-]/, ''))
  return size !== undefined && text.startsWith('-') ? -size : size
}

/** Prints micro-cents as dollars exactly, with at least two decimals: `50.00`, `-0.00000001`. */
export function printUsd(microcents: bigint): string {
  const size = microcents < 0n ? -microcents : microcents
  const fraction = String(size % MICROCENTS_PER_DOLLAR)
    .padStart(DECIMALS, '0')
    .replace(/0{1,6}$/, '')
  return `${microcents < 0n ? '-' : ''}${size / MICROCENTS_PER_DOLLAR}.${fraction}`
}
