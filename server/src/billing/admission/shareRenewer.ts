import type { Ask } from './renewalQueue.ts'
import type { Share } from './share.ts'

/**
 * Renews this process's shares of accounts. A renewal reads exact figures only while no batch of charges is under way, so the
 * writer of charges implements it.
 */
export interface ShareRenewer {
  /**
   * Asks the account for as much as makes `wantedMicrocents` spendable, beside the wants of others at the same time, and
   * brings the share up to date. Resolves whether or not anything was granted. Rejects when the database can't be asked now.
   * `ask.take` runs synchronously when the share is updated, so that no other call takes the money first: for running calls first, then in
   * the order of asking.
   */
  renew(share: Share, wantedMicrocents: bigint, ask?: Ask): Promise<void>
  /** Discards the results of renewals in flight: the slot was lost, and others may have been given the same. */
  forgetRenewals(): void
  /** Charges that are not yet known to be posted. */
  readonly backlog: number
  /** For how long the oldest of them has waited, milliseconds. */
  readonly oldestAgeMs: number
}
