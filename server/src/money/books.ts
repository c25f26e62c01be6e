/** What the parts of an account add up to; each pair must agree. All micro-cents. */
export interface Books {
  /** Σ ledger entries − Σ charges. */
  readonly booked: bigint
  /** Balance − Σ spent slices. */
  readonly kept: bigint
  readonly allotted: bigint
  /** Σ granted of allotments. */
  readonly granted: bigint
  /** What the account says is held, and Σ of its holds. */
  readonly reserved: bigint
  readonly held: bigint
}
