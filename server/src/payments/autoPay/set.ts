import { tellChange } from '../../billing/admission/accounts/reclaim.ts'
import { NO_ORGANIZATION } from '../../http/principal.ts'
import type { Database, Participant, Transaction } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { Refused, refuse } from '../../lib/errors.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import type { PaymentProvider } from '../provider/provider.ts'
import { findCustomer } from '../topUps/customer.ts'
import { ATTEMPTS_A_DAY, type AutoPay } from './autoPay.ts'
import { putInForce } from './putInForce.ts'
import { selectAgreement, selectFailedMethod, selectIsDeleted, upsertAgreement } from './store.ts'

export interface SetAutoPayDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly provider: PaymentProvider
  /** Auto-pay may be due now. Returns at once. */
  readonly wake: () => void
}

/** The terms that an organization asks for. Terms that it leaves out stay as they were. */
export interface AutoPayRequest {
  readonly isEnabled: boolean
  readonly thresholdCents: number | undefined
  readonly amountCents: number | undefined
  readonly attemptsADay: number | undefined
}

/** The terms of an agreement. */
export type AutoPayTerms = Pick<AutoPay, 'isEnabled' | 'thresholdCents' | 'amountCents' | 'attemptsADay'>

/** Work that joins the change of the terms. `before`: null: there were none. */
export type JoinAutoPay = (before: AutoPayTerms | null, after: AutoPayTerms) => readonly Participant[]

/**
 * Switches auto-pay on or off, or changes it. Declines of the same saved payment method still count, and the wait after them stays (B5).
 * Throws `Refused`: `payment_method_missing` where it is
 * to be on and no payment method is saved, `validation_failed` where it never had a threshold and an amount,
 * `payment-source-unavailable` where the payment provider can't be asked, `not_found` for an organization that is deleted.
 */
export async function setAutoPay(
  { database, clock, log, provider, wake }: SetAutoPayDependencies,
  organizationId: string,
  wanted: AutoPayRequest,
  join: JoinAutoPay = () => [],
): Promise<void> {
  const { isEnabled } = wanted
  const method = isEnabled ? await methodOf({ database, provider }, organizationId) : null
  const putting = (tx: Transaction) =>
    putInForce(tx, organizationId, clock.now(), async () => {
      if (await selectIsDeleted(tx, organizationId)) throw new Refused(NO_ORGANIZATION)
      const before = await selectAgreement(tx, organizationId)
      const thresholdCents = wanted.thresholdCents ?? before?.thresholdCents ?? null
      const amountCents = wanted.amountCents ?? before?.amountCents ?? null
      const attemptsADay = wanted.attemptsADay ?? before?.attemptsADay ?? ATTEMPTS_A_DAY
      if (isEnabled && (thresholdCents === null || amountCents === null)) return refuseUnsaid()
      const agreed = { isEnabled, thresholdCents, amountCents, attemptsADay }
      const keepsFailures = await countsFailures(tx, organizationId, before, method)
      const after = await upsertAgreement(tx, organizationId, agreed, keepsFailures)
      await joinAll(tx, join(before, agreed))
      return after
    })
  await database.transaction(putting, organizationId)
  wake()
  // Processes that were granted more than the threshold leaves fold what they have spent: then the balance shows it.
  await tellChange(database, organizationId).catch((error: unknown) =>
    log.warn({ err: error }, 'processes could not be told of auto-pay; they see it when they next renew their shares'),
  )
}

/**
 * Returns whether earlier failures still count. They do while auto-pay is off. Where it is switched on with another payment method than the
 * one that failed, or after failures had switched it off, it begins anew. `method`: the saved one; null: auto-pay is to be off.
 */
async function countsFailures(
  tx: Transaction,
  organizationId: string,
  before: AutoPay | null,
  method: string | null,
): Promise<boolean> {
  if (before === null || before.isSuspended) return false
  if (method === null || before.declines === 0) return true
  const failed = await selectFailedMethod(tx, organizationId)
  return failed === null || failed === method
}

/** Returns the saved payment method. Refuses where there is none. */
async function methodOf(
  { database, provider }: Pick<SetAutoPayDependencies, 'database' | 'provider'>,
  organizationId: string,
): Promise<string> {
  const customer = await findCustomer(database, organizationId, provider.name)
  const method = customer === null ? null : await provider.savedMethod(customer)
  if (method !== null) return method
  return refuse(
    'payment_method_missing',
    'No payment method is saved. Begin a top-up with "save_payment_method": true, pay it, and try again.',
  )
}

function refuseUnsaid(): never {
  const message = "'threshold_cents' and 'amount_cents' are required when auto-pay is switched on for the first time."
  return refuse('validation_failed', message, { param: 'threshold_cents' })
}
