import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import type { Admission } from '../admission/admission.ts'
import { lock, release } from '../admission/holds/hold.ts'
import { type OnDayMended, renewShares } from '../admission/renewal/renew.ts'
import { ensureChargePartition } from './partitions/prepare.ts'
import { postCharges } from './post.ts'
import { NO_TOKENS } from './settle.ts'

/**
 * Charges of finished work are posted under this slot, which no process has. All that is keyed by it is written under the
 * lock of its account, so that no two transactions meet there.
 */
const FINISHED_WORK_SLOT = -1

/** Nothing is wanted, and nothing kept: the renewal's statement folds what was spent, and sees whom to tell. */
const FOLD = { admission: 0n, least: 0n, extension: 0n, giveBack: 0n }

/** A video that is there: the admission's id is its job's and its hold's. */
export interface FinishedVideo extends Admission {
  /** Those that are billed: at least 1. */
  readonly seconds: number
  /** Of them, in whole cents (`priceVideo`). */
  readonly costMicrocents: bigint
  /** The target that made it, `provider/model`. */
  readonly target: string
}

/** Makes sure that a charge of that instant has a place. Before its transaction: it locks more than that should. */
export function prepareSettling(database: Queryable, admittedAtMs: number): Promise<void> {
  return ensureChargePartition(database, admittedAtMs)
}

/**
 * Charges a finished video and ends its hold, within the transaction that completes its job; the balance may become
 * negative by it (V6). The charge counts to the instant of admission, like all others. Where its id is posted already, the
 * hold ends and nothing else happens. True: there is somebody to be told something. Throws when it costs more than was held
 * for it (C10).
 */
export async function settleVideo(
  tx: Transaction,
  { seconds, costMicrocents, target, ...admission }: FinishedVideo,
  nowMs: number,
  lowBalanceMicrocents: bigint,
  onDayMended?: OnDayMended,
): Promise<boolean> {
  const { organizationId } = admission
  await lock(tx, organizationId)
  const heldMicrocents = await release(tx, admission.chargeId)
  // Without a hold it costs nothing, or is posted already.
  if (heldMicrocents !== null && costMicrocents > heldMicrocents) {
    throw new Error('a video costs more than was held for it')
  }
  const charge = {
    ...admission,
    usage: NO_TOKENS,
    estimated: false,
    costMicrocents,
    target,
    outcome: 'completed',
    modality: 'video',
    videoSeconds: seconds,
  } as const
  await postCharges(tx, FINISHED_WORK_SLOT, [charge], nowMs)
  const wants = new Map([[organizationId, FOLD]])
  const folded = await renewShares(tx, FINISHED_WORK_SLOT, wants, nowMs, lowBalanceMicrocents, null, onDayMended)
  return folded.some(({ noticed }) => noticed)
}
