import { lockAccountAutoPay, setAccountAutoPay } from '../../billing/admission/balance/autoPay.ts'
import { grantCredit } from '../../billing/ledger/grantCredit.ts'
import { noteAutoPay } from '../../billing/notices/noteAutoPay.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import type { AutoPaymentFacts } from '../provider/autoPayment.ts'
import { nextLookMs } from '../provider/payment.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { type AutoPay, nextTryMs } from './autoPay.ts'
import { type AutoPayAttempt, updateAttempt, updateFailed, updateSucceeded } from './store.ts'

export interface ConcludeDependencies {
  readonly random: RandomBytes
  readonly provider: Pick<PaymentProvider, 'name'>
}

/**
 * Applies what became of a payment: its state, and its credit where it is paid. The credit has the payment provider's own id of the
 * payment as its source, so it is posted once, whatever is repeated.
 */
export async function applyAttempt(
  tx: Transaction,
  { random, provider }: ConcludeDependencies,
  { id, organizationId }: Pick<AutoPayAttempt, 'id' | 'organizationId'>,
  facts: AutoPaymentFacts,
  nowMs: number,
): Promise<void> {
  const isChanged = await updateAttempt(tx, id, facts, nowMs)
  if (!isChanged || facts.state !== 'paid') return
  await grantCredit(tx, random, {
    organizationId,
    amountMicrocents: BigInt(facts.amountCents) * MICROCENTS_PER_CENT,
    source: `payment:${provider.name}:${facts.payment}`,
    note: `auto-pay ${id}`,
    isPayment: true,
    atMs: nowMs,
  })
}

/** How a failure goes on. */
export interface FailureCourse {
  readonly declines: number
  /** When a payment is tried again; null: auto-pay is switched off. */
  readonly untilMs: number | null
  /** Of what the organization is told; null: of nothing. */
  readonly tells: 'off' | 'authentication' | null
}

/** Returns how auto-pay goes on after a failure. `isFinal`: another attempt would fail too. Pure. */
export function courseOf(
  { isEnabled, declines: before, isTold }: AutoPay,
  failed: { readonly state: 'declined' | 'authentication'; readonly isFinal?: boolean },
  nowMs: number,
): FailureCourse {
  const declines = before + 1
  const untilMs = failed.isFinal === true ? null : nextTryMs(declines, nowMs)
  const wants = untilMs === null ? 'off' : failed.state === 'authentication' && !isTold ? 'authentication' : null
  return { declines, untilMs, tells: isEnabled ? wants : null }
}

/** Notes how a payment ended that is applied, and when the account is looked at next. The account is locked. */
export async function concludeAttempt(
  tx: Transaction,
  agreement: AutoPay,
  organizationId: string,
  ended: {
    readonly createdAtMs: number
    readonly facts: AutoPaymentFacts
    readonly link: string | null
    readonly isFinal?: boolean
  },
  nowMs: number,
): Promise<void> {
  const { createdAtMs, facts, link, isFinal = false } = ended
  // Read again: the credit is in it now.
  const account = await lockAccountAutoPay(tx, organizationId)
  if (account === null) return
  const { balanceMicrocents, thresholdMicrocents } = account
  const next = (dueAtMs: number | null) => setAccountAutoPay(tx, organizationId, { thresholdMicrocents, dueAtMs })
  if (facts.state === 'processing') return next(nextLookMs(createdAtMs, nowMs))
  if (facts.state === 'paid' || facts.state === 'given_up') {
    if (facts.state === 'paid') await updateSucceeded(tx, organizationId, null)
    const isLow = thresholdMicrocents !== null && balanceMicrocents < thresholdMicrocents
    return next(isLow ? nowMs : null)
  }
  const { state, reason } = facts
  const { declines, untilMs, tells } = courseOf(agreement, { state, isFinal }, nowMs)
  const suspends = untilMs === null
  const isTold = agreement.isTold || tells === 'authentication'
  await updateFailed(tx, organizationId, { reason, atMs: nowMs, declines, isTold, suspends })
  if (tells !== null) await noteAutoPay(tx, { ...amountsOf(agreement), organizationId, kind: tells, link, atMs: nowMs })
  if (suspends) return setAccountAutoPay(tx, organizationId, { thresholdMicrocents: null, dueAtMs: null })
  return next(thresholdMicrocents === null ? null : untilMs)
}

/** Both are set where auto-pay was on. */
function amountsOf({ amountCents, thresholdCents }: AutoPay) {
  return {
    amountMicrocents: BigInt(amountCents ?? 0) * MICROCENTS_PER_CENT,
    thresholdMicrocents: BigInt(thresholdCents ?? 0) * MICROCENTS_PER_CENT,
  }
}
