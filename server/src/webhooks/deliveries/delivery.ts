import type { EventType } from '../event.ts'

/** `pending`: an attempt is due or under way. `dead`: every attempt of its schedule failed. */
export const DELIVERY_STATES = ['pending', 'delivered', 'dead'] as const
export type DeliveryState = (typeof DELIVERY_STATES)[number]

/** One event on its way to one endpoint. */
export interface Delivery {
  readonly id: string
  readonly organizationId: string
  readonly endpointId: string
  readonly eventId: string
  readonly eventType: EventType
  readonly state: DeliveryState
  readonly createdAtMs: number
  /** Of the next attempt; null once it is over. */
  readonly dueAtMs: number | null
  /** Of the last ten, oldest first. */
  readonly attempts: readonly LoggedAttempt[]
}

/** What came of an attempt. Exactly one of `status` and `failure` is set. */
export interface Outcome {
  readonly startedAtMs: number
  readonly latencyMs: number
  readonly status: number | null
  readonly failure: AttemptFailure | null
  /** The first 4 KiB of the answer's body; null where none came. */
  readonly answer: Uint8Array | null
}

export interface LoggedAttempt extends Outcome {
  /** From 1, over all rounds. */
  readonly number: number
}

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
export function isDelivered({ status }: Pick<Outcome, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}
