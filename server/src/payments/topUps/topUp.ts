import { NO_ORGANIZATION } from '../../http/principal.ts'
import type { Participant } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { Refused, refuse } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { refuseFrozen } from '../freezes/freezes.ts'
import { nextLookMs, OPENING_MS, type Payment } from '../provider/payment.ts'
import { customerOf } from './customer.ts'
import { anHourAgo, refuseTooManyTopUps, type TopUpCaller } from './hourly.ts'
import { NOT_OPENED, type RefreshDependencies, refreshPayment } from './refresh.ts'
import { insertPayment, lockCustomer, markNotOpened, markReplaced, selectTopUpsAfter, updateOpened } from './store.ts'

export interface TopUpDependencies extends RefreshDependencies {
  readonly log: Log
}

export interface NewTopUp {
  /** A UUIDv7 of now, for a caller that has to know it before. Left out: one is made. */
  readonly id?: string
  readonly organizationId: string
  /** US cents, within the bounds of the settings. */
  readonly amountCents: number
  /** True when the payment method is kept for later payments, such as those of auto-pay. */
  readonly savesMethod: boolean
  /** True when its link is sent to mend auto-pay: an ordinary top-up does not replace it then, nor it one. Default: false. */
  readonly isMending?: boolean
  /** The key or the member that asks for it. Left out: nobody does, as for a link that mends auto-pay. */
  readonly caller?: TopUpCaller
  readonly successUrl: string
  readonly cancelUrl: string
  /** Keeps the answer, in the transaction that gives the payment its checkout. */
  readonly keep: (payment: Payment) => Promise<readonly Participant[]>
}

/**
 * Opens a checkout where a person may pay for credit. An older open one of the organization is expired (B9), except that a link
 * which mends auto-pay is expired by another such link alone. Throws `Refused`: `payment-source-unavailable` where the payment
 * provider can't be asked, and nothing can be paid then; `org-frozen` (B11); `rate_limited` after 30 of a caller within an hour, or
 * 60 of all callers of its sort (admins or not); `not_found` for an organization that is deleted.
 */
export async function openTopUp(dependencies: TopUpDependencies, wanted: NewTopUp): Promise<Payment> {
  const { database, clock, random, provider, log } = dependencies
  const { organizationId, amountCents, savesMethod, isMending = false, caller = null, successUrl, cancelUrl } = wanted
  await refuseFrozen(database, organizationId)
  const createdAtMs = clock.now()
  const customer = await customerOf(dependencies, organizationId)
  const id = wanted.id ?? uuidV7(createdAtMs, random)
  await database.transaction(async (tx) => {
    await lockCustomer(tx, organizationId, provider.name)
    const row = {
      id,
      organizationId,
      provider: provider.name,
      kind: 'top_up',
      amountCents,
      createdAtMs,
      isMending,
      caller,
    } as const
    refuseTooManyTopUps(await selectTopUpsAfter(tx, row, anHourAgo(createdAtMs)), createdAtMs)
    if (!(await insertPayment(tx, row, createdAtMs + OPENING_MS))) throw new Refused(NO_ORGANIZATION)
  }, organizationId)
  const description = `Credit of $${(amountCents / 100).toFixed(2)}`
  const checkout = await provider
    .openCheckout({ paymentId: id, customer, amountCents, description, savesMethod, successUrl, cancelUrl })
    .catch(async (error: unknown) => {
      // Nobody has its address, so nobody can pay it.
      await markNotOpened(database, id, NOT_OPENED)
      throw error
    })
  const opened = await database.transaction(async (tx) => {
    await lockCustomer(tx, organizationId, provider.name)
    const payment = await updateOpened(tx, id, checkout, nextLookMs(createdAtMs, clock.now()))
    if (payment === null) return refuse('payment-source-unavailable', NOT_OPENED)
    await joinAll(tx, await wanted.keep(payment))
    return { payment, replaced: await markReplaced(tx, payment, clock.now()) }
  }, organizationId)
  for (const replaced of opened.replaced) {
    await refreshPayment(dependencies, { id: replaced }).catch((error: unknown) =>
      log.warn({ err: error, payment: replaced }, 'a replaced checkout could not be expired; it is tried again'),
    )
  }
  return opened.payment
}

/**
 * Throws `Refused` (`rate_limited`) where the caller, or all of its sort, have begun as many top-ups as they may within an hour. Nobody is
 * asked for that. `openTopUp` looks again, in the transaction that begins the top-up.
 */
export async function refuseTopUpFirst(
  { database, clock }: Pick<TopUpDependencies, 'database' | 'clock'>,
  organizationId: string,
  caller: TopUpCaller,
): Promise<void> {
  const nowMs = clock.now()
  const wanted = { organizationId, caller, isMending: false }
  refuseTooManyTopUps(await selectTopUpsAfter(database, wanted, anHourAgo(nowMs)), nowMs)
}
