/** A charge that the database refused. */
export interface DeadCharge {
  readonly id: string
  /** The charge as it was to be posted; amounts are digits in texts. */
  readonly charge: Readonly<Record<string, unknown>>
  /** The words of the database. */
  readonly reason: string
  readonly failedAtMs: number
}
