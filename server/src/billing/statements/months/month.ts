/** A UTC month and its statement. Pure. Amounts are micro-cents. */

export interface Month {
  /** `YYYY-MM`. */
  readonly name: string
  /** Its first instant, in milliseconds since the epoch. */
  readonly startMs: number
  /** The first instant after it. */
  readonly endMs: number
}

const MONTH = /^(\d{4})-(0[1-9]|1[0-2])$/

/** Returns the month that `YYYY-MM` names, from 1970 up to 9998; null for any other text. */
export function parseMonth(text: string): Month | null {
  const [, year, month] = MONTH.exec(text) ?? []
  if (year === undefined || month === undefined || year < '1970' || year > '9998') return null
  const startMs = Date.UTC(Number(year), Number(month) - 1)
  return { name: text, startMs, endMs: Date.UTC(Number(year), Number(month)) }
}

/** Ledger entries of one kind whose sources begin alike. */
export interface CreditLine {
  readonly kind: string
  /** The first part of the sources, such as `payment`. */
  readonly source: string
  readonly entries: bigint
  /** May be below 0. */
  readonly amountMicrocents: bigint
}

/** The charges for one model. */
export interface ChargeLine {
  readonly model: string
  readonly tier: string
  readonly charges: bigint
  readonly costMicrocents: bigint
}

/** The movements of a balance in a month. */
export interface Movements {
  readonly openingMicrocents: bigint
  readonly credits: readonly CreditLine[]
  readonly charges: readonly ChargeLine[]
}

export interface Statement extends Movements {
  readonly month: Month
  /** Open: more may be posted in the month. A closed statement never changes. */
  readonly state: 'open' | 'closed'
  /** When it was read, or closed. */
  readonly asOfMs: number
  readonly creditsMicrocents: bigint
  readonly chargesMicrocents: bigint
  readonly closingMicrocents: bigint
}

/** Adds up a statement. */
export function statementOf(
  month: Month,
  state: Statement['state'],
  asOfMs: number,
  { openingMicrocents, credits, charges }: Movements,
): Statement {
  const creditsMicrocents = credits.reduce((sum, line) => sum + line.amountMicrocents, 0n)
  const chargesMicrocents = charges.reduce((sum, line) => sum + line.costMicrocents, 0n)
  const closingMicrocents = openingMicrocents + creditsMicrocents - chargesMicrocents
  return {
    month,
    state,
    asOfMs,
    openingMicrocents,
    credits,
    charges,
    creditsMicrocents,
    chargesMicrocents,
    closingMicrocents,
  }
}
