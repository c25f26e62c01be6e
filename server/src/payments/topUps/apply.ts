import { grantCredit } from '../../billing/ledger/grantCredit.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { type CheckoutFacts, isPending, nextLookMs, type Payment } from '../provider/payment.ts'
import { updateRetrieved } from './store.ts'

/**
 * Applies what was retrieved of a checkout, whose payment is locked: its state, and for one that is paid the credit. The credit
 * has the payment provider's own id of the payment as its source, so it is posted once, whatever is repeated. A payment that was
 * paid before is left as it is.
 */
export async function applyCheckout(
  tx: Transaction,
  random: RandomBytes,
  payment: Payment,
  facts: CheckoutFacts,
  nowMs: number,
): Promise<void> {
  const dueAtMs = isPending(facts.state) ? nextLookMs(payment.createdAtMs, nowMs) : null
  const isChanged = await updateRetrieved(tx, payment.id, facts, { nowMs, dueAtMs })
  if (!isChanged || facts.state !== 'paid') return
  await grantCredit(tx, random, {
    organizationId: payment.organizationId,
    amountMicrocents: BigInt(facts.amountCents) * MICROCENTS_PER_CENT,
    source: `payment:${payment.provider}:${facts.payment}`,
    note: `top-up ${payment.id}`,
    isPayment: true,
    atMs: nowMs,
  })
}
