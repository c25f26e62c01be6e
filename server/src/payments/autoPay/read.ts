import { type AccountAutoPay, readAccountAutoPay } from '../../billing/admission/balance/autoPay.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { PaymentState } from '../provider/payment.ts'
import type { AutoPay } from './autoPay.ts'
import { selectAgreement, selectOpenAttempt, selectStates } from './store.ts'

/** Auto-pay as its organization sees it. */
export interface ShownAutoPay {
  /** Null: the organization never agreed to anything. */
  readonly agreement: AutoPay | null
  /** When a payment is tried next, in milliseconds since the epoch; null: none is due, or one is under way. */
  readonly nextAttemptMs: number | null
}

export async function readAutoPay(database: Queryable, organizationId: string): Promise<ShownAutoPay> {
  const [agreement, account, open] = await Promise.all([
    selectAgreement(database, organizationId),
    readAccountAutoPay(database, organizationId),
    selectOpenAttempt(database, organizationId),
  ])
  const isWaiting = open === null && agreement?.isEnabled === true
  return { agreement, nextAttemptMs: isWaiting && account !== null ? dueAtMsOf(account) : null }
}

/** Returns when the payment of an account is due; null: its balance is high enough, or a process is making the payment now. */
function dueAtMsOf({ balanceMicrocents, thresholdMicrocents, dueAtMs, isClaimed }: AccountAutoPay): number | null {
  const isLow = thresholdMicrocents !== null && balanceMicrocents < thresholdMicrocents
  return isLow && !isClaimed ? dueAtMs : null
}

/** Returns what an organization has agreed to while auto-pay is on; null else. */
export async function readEnabledAutoPay(
  database: Queryable,
  organizationId: string,
): Promise<{ readonly thresholdCents: number; readonly amountCents: number } | null> {
  const agreement = await selectAgreement(database, organizationId)
  if (agreement?.isEnabled !== true) return null
  const { thresholdCents, amountCents } = agreement
  return thresholdCents === null || amountCents === null ? null : { thresholdCents, amountCents }
}

/** Returns the states of those of some payments that are known, by their ids. */
export function findPaymentStates(
  database: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, PaymentState>> {
  return selectStates(database, ids)
}
