import { doubledMs } from '../../../lib/backoff.ts'
import type { Log } from '../../../lib/log.ts'
import { HOUR_MS, MINUTE_MS } from '../../../lib/time.ts'
import { listFreezes } from '../../freezes/freezes.ts'
import { findDeposit } from '../deposit/find.ts'
import { type DecidingDependencies, decideTransfer, type TransferDecision } from '../transfers/decide.ts'
import type { Transfer } from '../transfers/transfer.ts'
import type { AskHook } from './hook.ts'

/** A transfer that is held is screened again so soon; twice as late each time. */
const AGAIN_FIRST_MS = MINUTE_MS
const AGAIN_LATEST_MS = HOUR_MS

export interface ScreenDependencies extends DecidingDependencies {
  readonly log: Log
  readonly askHook: AskHook
}

/** Screens a settled transfer that was claimed, and carries the verdict out. No transaction is open while the hook is asked. */
export async function screenTransfer(dependencies: ScreenDependencies, transfer: Transfer): Promise<void> {
  const decision = await decisionOf(dependencies, transfer)
  if (decision.kind !== 'credit') {
    const { depositId, chain, transactionHash } = transfer
    dependencies.log.warn(
      { depositId, chain, transactionHash, reason: decision.reason },
      decision.kind === 'reject'
        ? 'deposits: a transfer was rejected by its screening and is not credited'
        : 'deposits: a transfer is held; release or reject it, or wait until it is screened again',
    )
  }
  await decideTransfer(dependencies, transfer, decision)
}

async function decisionOf(
  { database, clock, askHook }: ScreenDependencies,
  transfer: Transfer,
): Promise<TransferDecision> {
  const hold = (reason: string): TransferDecision => ({
    kind: 'hold',
    reason,
    dueAtMs: clock.now() + doubledMs(AGAIN_FIRST_MS, AGAIN_LATEST_MS, transfer.attempts - 1),
  })
  const answer = await askHook(transfer)
  if (answer.verdict === 'unknown') return hold('the screening could not be asked')
  if (answer.verdict === 'hold') return hold(withReason('the screening wants a person to decide', answer.reason))
  if (answer.verdict === 'reject')
    return { kind: 'reject', reason: withReason('rejected by the screening', answer.reason) }
  const deposit = await findDeposit(database, null, transfer.depositId)
  const freezes = deposit === null ? [] : await listFreezes(database, deposit.organizationId)
  // A transfer of a deposit that was begun before any other freeze is still credited (B11).
  if (freezes.some(({ reason }) => reason === 'screening')) return hold('the organization is frozen for screening')
  return { kind: 'credit' }
}

/** Adds the reason that the operator's hook gave, if it gave one. */
function withReason(what: string, reason: string): string {
  return reason === '' ? what : `${what}: ${reason}`
}
