import { lockAccountAutoPay, setAccountAutoPay } from '../../billing/admission/balance/autoPay.ts'
import { openAccount } from '../../billing/admission/balance/balance.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { type AutoPay, waitEndMs } from './autoPay.ts'
import { selectOpenAttempt } from './store.ts'

/**
 * Applies a changed agreement, in the transaction that changes it: writes its threshold to the account and, where the balance is
 * below that, schedules a payment, for now or for when the wait after a decline ends. `change` writes the agreement and returns it;
 * null: there is none. The account is locked first.
 */
export async function putInForce(
  tx: Transaction,
  organizationId: string,
  nowMs: number,
  change: () => Promise<AutoPay | null>,
): Promise<void> {
  await openAccount(tx, organizationId)
  const account = await lockAccountAutoPay(tx, organizationId)
  const agreed = await change()
  if (account === null || agreed === null) return
  const { isEnabled, thresholdCents } = agreed
  const thresholdMicrocents = isEnabled && thresholdCents !== null ? BigInt(thresholdCents) * MICROCENTS_PER_CENT : null
  const isLow = thresholdMicrocents !== null && account.balanceMicrocents < thresholdMicrocents
  // The outcome of a payment under way is found out when its process has given it up, also where auto-pay is off by then.
  const isUnderWay = (await selectOpenAttempt(tx, organizationId)) !== null
  const lowDueAtMs = Math.max(nowMs, waitEndMs(agreed) ?? nowMs)
  const dueAtMs = isUnderWay ? (account.dueAtMs ?? nowMs) : isLow ? lowDueAtMs : null
  await setAccountAutoPay(tx, organizationId, { thresholdMicrocents, dueAtMs })
}
