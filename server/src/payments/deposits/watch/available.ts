import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import { finalMovesAfterMs } from './finality.ts'
import { selectAvailable } from './store.ts'

/** A chain at which nobody has looked for so long, beside its pause between two looks, is taken for away. */
const UNSEEN_MS = 2 * MINUTE_MS

/** Returns whether deposits may begin on a chain: some process has read it lately, and its final block moves. */
export function isChainAvailable(db: Queryable, chain: DepositChain, pollMs: number, nowMs: number): Promise<boolean> {
  const seenAfterMs = nowMs - pollMs - UNSEEN_MS
  return selectAvailable(db, chain, { seenAfterMs, movedAfterMs: finalMovesAfterMs(chain, pollMs, nowMs) })
}
