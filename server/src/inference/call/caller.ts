/** The caller of a paid call, and the Idempotency-Key of its request. */

/** The Idempotency-Key of a request, for charges that are not known to be posted in time. */
export interface RequestKey {
  /** Says that the charge was withdrawn: no answer is kept, and the key is free once the request has ended. */
  discard(): void
  /** Keeps the key in progress until `known` resolves: the charge and the kept answer stand or fall together. */
  awaitOutcome(known: Promise<unknown>): void
}

export interface InferenceCaller {
  readonly organizationId: string
  readonly keyId: string
  /** The client's header of that name, where calls are traced. */
  readonly traceparent: string | null
  /** Returns whether the client has left, also where that cancels nothing: the charge stands then (E14). */
  isClientGone(): boolean
  /** The request's Idempotency-Key; left out: it has none. */
  readonly key?: RequestKey
}
