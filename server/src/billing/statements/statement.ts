/** A movement of money that is no charge, as an operator sees it. */
export interface ListedEntry {
  readonly id: string
  readonly postedAtMs: number
  /** `charges` stands for the charges of a day that retention has dropped; `payment_…` for credit of a payment that went back. */
  readonly kind: 'credit' | 'refund' | 'adjustment' | 'charges' | 'payment_refund' | 'payment_dispute'
  readonly amountMicrocents: bigint
  readonly source: string
  readonly note: string | null
}

export interface EntryWindow {
  /** Entries that were posted before, in milliseconds since the epoch. */
  readonly endMs: number
  /** The last entry of the page before; null on the first. */
  readonly afterId: string | null
  /** From 1. */
  readonly limit: number
}
