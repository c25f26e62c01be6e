/** Who makes a paid call, and what a call that is answered in one piece comes to. */

import type { Rider } from '../io/postgres/database.ts'

export interface PaidCaller {
  readonly organizationId: string
  readonly keyId: string
  /** Prepares the answer to be kept with its charge; never rejects. Left out: it is not kept. */
  readonly keep?: (body: string | Uint8Array) => Promise<readonly Rider[]>
}

export interface PaidAnswer {
  /** JSON. */
  readonly body: string | Uint8Array<ArrayBuffer>
  readonly costMicrocents: bigint
}
