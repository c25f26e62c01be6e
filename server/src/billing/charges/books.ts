/** The sums of an account that must agree, in pairs. All are in micro-cents. */
export interface Books {
  /** Σ ledger entries − Σ charges. */
  readonly booked: bigint
  /** Balance − Σ unfolded spend. */
  readonly kept: bigint
  /** The account's figure of all that is granted, and Σ granted of its shares. */
  readonly granted: bigint
  readonly shares: bigint
  /** The account's figure of all durable holds, and Σ of them. */
  readonly held: bigint
  readonly holds: bigint
}
