/** The plans of the processes of `charges.ts`, and their reports. */

/** The plan of a process: its one argument, as JSON. */
export interface ProcessPlan {
  readonly url: string
  readonly organizationId: string
  readonly keyIds: readonly string[]
  readonly slot: number
  /** Calls that are open at once in this process. */
  readonly openCalls: number
  /** Connections of the single-row way, one charge at a time on each. */
  readonly connections: number
}

/** `batched`: through admission, settlement and the writer. `single`: a transaction of its own for each charge. */
export type Way = 'batched' | 'single'

export interface Order {
  readonly way: Way
  readonly seconds: number
}

/** Charges that were durable within the time, and how long each took: histogram of {@link BUCKETS_PER_MS} a ms. */
export interface Report {
  readonly charges: number
  readonly histogram: readonly number[]
}

export const BUCKETS_PER_MS = 20
