import { lockAccountAutoPay } from '../../billing/admission/balance/autoPay.ts'
import type { Database } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import type { ListedPayment } from '../provider/autoPayment.ts'
import { applyAttempt, type ConcludeDependencies } from './conclude.ts'
import { insertAutoPayment, updateSucceeded } from './store.ts'

export interface AdoptAutoPaymentDependencies extends ConcludeDependencies {
  readonly database: Database
  readonly log: Log
}

/**
 * Puts a payment by auto-pay into the books that only the payment provider knows, and credits it where it is paid. It counts once,
 * whoever does the same at the same time. False: it is not asked for whole, or its money is on its way and another payment is under way.
 */
export async function adoptAutoPayment(
  { database, log, ...dependencies }: AdoptAutoPaymentDependencies,
  organizationId: string,
  { paymentId: id, amountCents, createdAtMs, facts }: ListedPayment,
  nowMs: number,
): Promise<boolean> {
  if (facts.state === 'begun') return false
  return database.transaction(async (tx) => {
    await lockAccountAutoPay(tx, organizationId)
    // No later step ends the row of declines for it. The agreement is locked before the payment.
    if (facts.state === 'paid') await updateSucceeded(tx, organizationId, createdAtMs)
    // One that is paid counts beside another that is under way.
    const state = facts.state === 'processing' ? facts.state : 'failed'
    const attempt = { id, organizationId, amountCents, createdAtMs, method: null, state } as const
    const isNew = await insertAutoPayment(tx, dependencies.provider.name, attempt)
    const isKnown = isNew || facts.state === 'paid'
    if (isKnown) await applyAttempt(tx, dependencies, attempt, facts, nowMs)
    if (isNew) log.warn({ organizationId, payment: id, state: facts.state }, ADOPTED)
    return isKnown
  })
}

const ADOPTED = 'a payment by auto-pay was not in the books; it is now'
