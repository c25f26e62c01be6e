/** A movement of money that is no charge. */
export interface LedgerEntry {
  /** A UUIDv7. */
  readonly id: string
  readonly organizationId: string
  /** Above 0 adds to the balance, below 0 takes from it. */
  readonly amountMicrocents: bigint
  /** `payment_…`: credit of a payment that goes back with its money. */
  readonly kind: 'credit' | 'refund' | 'adjustment' | 'payment_refund' | 'payment_dispute'
  /** Names the cause of the movement. One source is posted once only. */
  readonly source: string
  readonly note: string | null
  readonly postedAtMs: number
}
