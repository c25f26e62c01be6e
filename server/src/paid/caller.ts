/** Who makes a paid call, and what a call that is answered in one piece comes to. */

import type { Rider } from '../io/postgres/database.ts'

/** `Kept` is what is kept of an answer: what it is made of, before it is written out. */
export interface PaidCaller<Kept = PaidAnswer['body']> {
  readonly organizationId: string
  readonly keyId: string
  /** The client's header of that name, where calls are traced. */
  readonly traceparent: string | null
  /** Prepares the answer to be kept with its charge; never rejects. Left out: it is not kept. */
  readonly keep?: (answer: Kept) => Promise<readonly Rider[]>
}

export interface PaidAnswer {
  /** JSON, in pieces. */
  readonly body: readonly Uint8Array<ArrayBuffer>[]
  readonly costMicrocents: bigint
}
