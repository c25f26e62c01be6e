/** The nouns of the table of jobs. */

import type { z } from 'zod'

/** A kind of job: its name, and what a job of it carries. */
export interface JobKind<Payload> {
  /** Lower case and underscores; stands in the table, in metrics and in log lines. */
  readonly name: string
  /** Holds when a job is enqueued and again when it is worked on, perhaps by another version of the program. */
  readonly payload: z.ZodType<Payload>
}

/** A job that this process has claimed. */
export interface ClaimedJob {
  readonly id: string
  readonly organizationId: string
  readonly payload: unknown
  /** This one counted in; from 1. */
  readonly attempts: number
  /** Names this claim. */
  readonly lease: string
}

/** A payload in the table is at most so large as JSON. Larger things are artifacts, or rows of their own. */
export const PAYLOAD_BYTES_MOST = 65_536
