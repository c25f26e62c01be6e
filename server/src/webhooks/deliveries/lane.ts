/**
 * Two lanes keep the slow from delaying the others: an endpoint whose last attempt timed out or took long is in the slow
 * one until it answers fast again.
 */
export interface Lane {
  readonly isSlow: boolean
  /** Attempts of one endpoint at the same time. */
  readonly inFlightEach: number
  /** Attempts of the lane at the same time in this process; each is a socket. */
  readonly inFlightMost: number
}

export const FAST_LANE: Lane = { isSlow: false, inFlightEach: 8, inFlightMost: 2_048 }
export const SLOW_LANE: Lane = { isSlow: true, inFlightEach: 2, inFlightMost: 1_024 }

/** An attempt that takes this long holds its place as dozens of others would. */
export const SLOW_MS = 2_000
