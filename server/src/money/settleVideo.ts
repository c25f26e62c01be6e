import type { Queryable, Transaction } from '../io/postgres/database.ts'
import { refillAllotments } from './accounts/refill.ts'
import type { Admission } from './charge.ts'
import { lock, release } from './holds/hold.ts'

import { ensureChargePartition, postCharges } from './store.ts'

/**
 * Charges of finished work are posted under this slot, which no process has. All that is keyed by it is written under the
 * lock of its account, so that no two transactions meet there.
 */
const FINISHED_WORK_SLOT = -1

/** Nothing is wanted, and nothing kept: the refill's statement folds what was spent, and sees whom to tell. */
const FOLD = { launch: 0n, least: 0n, extension: 0n, giveBack: 0n }

/** A video that is there: the admission's id is its job's and its hold's. */
export interface FinishedVideo extends Admission {
  /** Those that are billed: at least 1. */
  readonly seconds: number
  /** Of them, in whole cents (`priceVideo`). */
  readonly costMicrocents: bigint
  /** The target that made it, `upstream/model`. */
  readonly target: string
}

/** Makes sure that a charge of that instant has a place. Before its transaction: it locks more than that should. */
export function prepareSettling(database: Queryable, admittedAtMs: number): Promise<void> {
  return ensureChargePartition(database, admittedAtMs)
}

/**
 * Charges a finished video and ends its hold, within the transaction that completes its job; the balance may become
 * negative by it (V6). The charge counts to the instant of admission, like all others. Where its id is posted already, the
 * hold ends and nothing else happens. True: there is somebody to be told something.
 */
export async function settleVideo(
  tx: Transaction,
  { seconds, costMicrocents, target, ...admission }: FinishedVideo,
  nowMs: number,
  lowBalanceMicrocents: bigint,
): Promise<boolean> {
  const { organizationId } = admission
  await lock(tx, organizationId)
  await release(tx, admission.chargeId)
  const usage = { promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 }
  const charge = {
    ...admission,
    usage,
    estimated: false,
    costMicrocents,
    target,
    outcome: 'completed',
    modality: 'video',
    videoSeconds: seconds,
  } as const
  await postCharges(tx, FINISHED_WORK_SLOT, [charge], nowMs)
  const folded = await refillAllotments(
    tx,
    FINISHED_WORK_SLOT,
    new Map([[organizationId, FOLD]]),
    nowMs,
    lowBalanceMicrocents,
  )
  return folded.some(({ noticed }) => noticed)
}
