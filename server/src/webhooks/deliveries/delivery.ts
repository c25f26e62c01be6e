import type { EventType } from '../events/event.ts'

/** `pending`: an attempt is due or under way. `dead`: every attempt of its schedule failed, or none was made for the `reason`. */
export const DELIVERY_STATES = ['pending', 'delivered', 'dead'] as const
export type DeliveryState = (typeof DELIVERY_STATES)[number]

/** `too_many_pending`: its organization had so many pending deliveries that this one was never tried. */
export const DEAD_REASONS = ['too_many_pending'] as const
export type DeadReason = (typeof DEAD_REASONS)[number]

/** One event on its way to one endpoint. */
export interface Delivery {
  readonly id: string
  readonly organizationId: string
  readonly endpointId: string
  readonly eventId: string
  readonly eventType: EventType
  readonly state: DeliveryState
  readonly createdAtMs: number
  /** Why it is dead although no attempt of its round was made; null: it is not. */
  readonly reason: DeadReason | null
  /** Of the next attempt; null once it is over. */
  readonly dueAtMs: number | null
  /** Of the last ten, oldest first. */
  readonly attempts: readonly LoggedAttempt[]
}

/** A delivery with the answers to its attempts. Up to 40 KiB of a customer's own bytes: shown by id, never in a list. */
export interface AnsweredDelivery extends Delivery {
  readonly attempts: readonly AnsweredAttempt[]
}

/** The result of an attempt. Exactly one of `status` and `failure` is set. */
export interface DeliveryAttemptResult {
  readonly startedAtMs: number
  readonly latencyMs: number
  readonly status: number | null
  readonly failure: AttemptFailure | null
  /** The first 4 KiB of the answer's body; null where none came. */
  readonly answer: Uint8Array | null
}

export interface AnsweredAttempt extends DeliveryAttemptResult {
  /** From 1, over all rounds. */
  readonly number: number
}

export type LoggedAttempt = Omit<AnsweredAttempt, 'answer'>

/**
 * Why no answer came. `refused_address`: the name leads to an address that webhooks may not reach. `unreachable`: no
 * connection, or no trusted one. `broken`: the connection ended early. `malformed`: the answer is not HTTP. `internal`: it failed on this side.
 */
export type AttemptFailure =
  | 'timeout'
  | 'unresolved'
  | 'refused_address'
  | 'unreachable'
  | 'broken'
  | 'malformed'
  | 'internal'

/** Any answer of 2xx is a success; redirects and 410 are failures like all others (W3). */
export function isDelivered({ status }: Pick<DeliveryAttemptResult, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}
