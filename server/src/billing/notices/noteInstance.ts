import type { Transaction } from '../../infra/postgres/database.ts'
import { insertInstanceNotice } from './store.ts'

/** An instance for which no more money could be held. */
export interface EndingInstance {
  readonly instanceId: string
  readonly organizationId: string
  /** Its hourly price, and the amount that is still held for it. */
  readonly hourMicrocents: bigint
  readonly heldMicrocents: bigint
  readonly atMs: number
}

/** Notes that an instance is about to end, in the transaction in which that is so. The organization is told after the commit. */
export function noteInstance(
  tx: Transaction,
  { instanceId, organizationId, hourMicrocents, heldMicrocents, atMs }: EndingInstance,
): Promise<void> {
  const amounts = { amountMicrocents: hourMicrocents, limitMicrocents: heldMicrocents }
  return insertInstanceNotice(tx, { organizationId, instanceId, ...amounts, noticedAtMs: atMs })
}
