/** The amounts that processes ask of accounts, and what comes of it. All are micro-cents. */

import type { AccountView, Gate } from './gates.ts'

/** The amounts that a process asks of an account, in micro-cents. */
export interface Want {
  /** The need of all new calls together. */
  readonly admission: bigint
  /** The need of the smallest of them: less than that is not worth having while others may use it. */
  readonly least: bigint
  /** The need of running calls to go on; where the customer's limits do not bind those, it is granted beyond the limits. */
  readonly extension: bigint
  /** Given back of what was granted; null: others are not to have what is idle, and more than what is needed may be granted. */
  readonly giveBack: bigint | null
}

/** The processes that a reclaim is for: those that have something idle or to be folded; or all that have anything of the account. */
export type ReclaimFrom = 'idle' | 'all'

/** Sends a reclaim to the other processes. */
export type SendReclaim = (organizationId: string, from: ReclaimFrom) => void

/** The result of a renewal for one organization. */
export interface Renewed extends AccountView {
  readonly organizationId: string
  /** The amount that the process may now spend by this share, before its own open holds and unposted charges. */
  readonly grantedMicrocents: bigint
  /** The customer's limit that is used up and cuts running calls (P5). */
  readonly exhaustedLimit: Gate | null
  /** True when the customer's limits bind running calls too. */
  readonly stopsRunning: boolean
  /** The first instant of the UTC day that the account had reached. */
  readonly dayStartMs: number
  /** It was granted beyond where somebody must be told: a limit that only notifies, a low balance. */
  readonly reachesNotice: boolean
  /** Somebody is to be told something that was seen just now. */
  readonly noticed: boolean
}
