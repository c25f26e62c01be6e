import type { TierName } from '../../catalog/model.ts'
import type { Cover } from '../plans/cover.ts'

/** The facts that are fixed when a call is admitted. Price, windows, partition and usage bucket follow from them. */
export interface Admission {
  /** The charge's identity: a UUIDv7 made here, never the client's word (D1). */
  readonly chargeId: string
  readonly admittedAtMs: number
  readonly organizationId: string
  readonly keyId: string
  readonly model: string
  readonly tier: TierName
  /** Names the immutable price version that the cost is computed from. */
  readonly priceHash: Uint8Array
  /** Present where a plan covers the call. The call then costs the balance nothing, and counts on the plan's meter. */
  readonly cover?: Cover
}
