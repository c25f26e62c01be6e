import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { Admission } from '../admission/admission.ts'
import type { Metered } from '../plans/meter.ts'

/**
 * How the call that is charged ended:
 * - `completed`: the whole answer was generated
 * - `cancelled`: the client hung up
 * - `interrupted`: the provider broke off in mid-stream
 * - `cut`: the money ran out in mid-call
 */
export type CallOutcome = 'completed' | 'cancelled' | 'interrupted' | 'cut'

/** Images that were delivered: at least one. */
export interface ImageUsage {
  readonly count: number
  /** Of all of them together, each counted up to the size that was asked for. */
  readonly pixels: number
}

/** A part of the life of an instance that is charged: at most a minute. */
export interface InstanceUsage {
  readonly instanceId: string
  readonly gpuType: string
  readonly gpuCount: number
  /** Counted from the instance's creation. */
  readonly fromSecond: number
  /** At least 1. */
  readonly seconds: number
}

/** A charge ready to be posted. */
export interface Charge extends Admission {
  readonly usage: TokenUsage
  /** True when the tokens were counted here because the provider reported none. */
  readonly estimated: boolean
  readonly costMicrocents: bigint
  /** The price of its usage, where that could not be held whole and so is more than the cost (C10); else absent. */
  readonly listMicrocents?: bigint
  /** The target that served it, `provider/model`, for the operator. */
  readonly target: string
  readonly outcome: CallOutcome
  /** The kind of call, for those that are not chat (B1); absent for chat. */
  readonly modality?: 'embedding' | 'image' | 'video' | 'instance'
  /** Of images alone, whose `usage` has no tokens. */
  readonly images?: ImageUsage
  /** Of a video alone: the seconds that are billed, at least 1. */
  readonly videoSeconds?: number
  /** Of an instance alone. */
  readonly instance?: InstanceUsage
  /** Its count on the plan's meter, where a plan covers it; `costMicrocents` is 0 then. */
  readonly metered?: Metered
}

/** A charge as the writer takes it. */
export interface HeldCharge extends Charge {
  /** The hold that it ends, in micro-cents: it costs no more (C10). Not stored. */
  readonly heldMicrocents: bigint
}

/** The database's answer to a batch of charges that it has posted. */
export interface SlotCharges {
  /** The charges that were ever posted under the slot, those of the batch too. */
  readonly charges: bigint
  /** Those of the batch that were not there before. */
  readonly inserted: bigint
}
