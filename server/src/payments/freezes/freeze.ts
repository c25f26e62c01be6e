/** The noun of a freeze: a reason for which no money may come in from an organization (B11). */

/** `operator`: by hand. `dispute`: a payment is disputed, or a dispute was lost. `screening`: of deposits. */
export const FREEZE_REASONS = ['operator', 'dispute', 'screening'] as const

export type FreezeReason = (typeof FREEZE_REASONS)[number]

/** An organization is frozen while it has at least one. Its calls go on while there is credit. */
export interface Freeze {
  readonly reason: FreezeReason
  /** Of `dispute`: the payment provider and its id of the dispute, such as `stripe:du_…`. Empty else. */
  readonly cause: string
  /** The operator's words; no customer reads them. */
  readonly note: string | null
  readonly frozenAtMs: number
}
