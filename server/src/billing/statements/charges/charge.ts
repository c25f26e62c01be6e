import { instantOfUuid } from '../../../lib/ids.ts'

/** A charge as its customer and as an operator see it, and the places of lists of charges. */

export interface PostedCharge {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly admittedAtMs: number
  readonly postedAtMs: number
  readonly keyId: string
  readonly model: string
  readonly tier: string
  readonly modality: string
  readonly promptTokens: bigint
  readonly cachedPromptTokens: bigint
  readonly completionTokens: bigint
  /** Counts that its modality does not have are 0. */
  readonly imageCount: number
  readonly videoSeconds: number
  /** The part of an instance's life that it pays for; null: it is no charge of an instance. */
  readonly rented: { readonly instanceId: string; readonly gpuCount: number; readonly seconds: number } | null
  /** True: the provider reported no usage, or far too little, and the tokens were counted here. */
  readonly estimated: boolean
  readonly costMicrocents: bigint
  /** True: a plan pays for it, and its cost is 0. */
  readonly isCovered: boolean
  readonly outcome: string
}

/** A charge as an operator sees it. */
export interface ListedCharge extends PostedCharge {
  /** The target that served it, `provider/model`. */
  readonly target: string
}

/** A charge's place in lists. */
export type ChargePlace = Pick<PostedCharge, 'id' | 'admittedAtMs'>

/** Charges of an organization by both of their instants, each from its start up to, and without, its end. */
export interface PostedWindow {
  readonly organizationId: string
  readonly admitted: { readonly startMs: number; readonly endMs: number }
  readonly posted: { readonly startMs: number; readonly endMs: number }
}

/** Returns the place that a charge with this id has: the id has the instant of the admission. Null: no charge has such an id. */
export function placeOfCharge(id: string): ChargePlace | null {
  const admittedAtMs = instantOfUuid(id)
  return admittedAtMs === null ? null : { id, admittedAtMs }
}

/** From `startMs` up to, and without, `endMs`; at most `limit`, from 1. */
export interface ChargeWindow {
  readonly startMs: number
  readonly endMs: number
  readonly limit: number
}
