import type { Transaction } from '../../infra/postgres/database.ts'
import { insertNoticeAt } from './store.ts'

/** A reason for which a person has to do something about auto-pay. */
export interface AutoPayTrouble {
  readonly organizationId: string
  /** `off`: it was switched off. `authentication`: the bank asks the person who has the card. */
  readonly kind: 'off' | 'authentication'
  /** The amount that was to be paid, and the threshold. */
  readonly amountMicrocents: bigint
  readonly thresholdMicrocents: bigint
  /** Where a person mends it; null where there is no such page. */
  readonly link: string | null
  readonly atMs: number
}

/** Notes that auto-pay needs a person, in the transaction in which that is so. The organization is told after the commit. */
export function noteAutoPay(tx: Transaction, trouble: AutoPayTrouble): Promise<void> {
  const { organizationId, kind, amountMicrocents, thresholdMicrocents, link, atMs } = trouble
  return insertNoticeAt(tx, {
    organizationId,
    kind: `auto_pay_${kind}`,
    amountMicrocents,
    limitMicrocents: thresholdMicrocents,
    atMs,
    link,
  })
}
