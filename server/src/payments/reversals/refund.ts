import { isUuid, uuidV7 } from '../../lib/ids.ts'
import type { PaymentProviderName } from '../provider/payment.ts'
import { grossOfCredit } from '../provider/reversal.ts'
import type { SubscriptionRefreshDependencies } from '../subscriptions/refresh.ts'
import { refreshReversal } from './refresh.ts'
import {
  closeRefundRequest,
  lockPaid,
  openRefundRequest,
  type ReversiblePayment,
  selectRefundRequests,
  sumMovements,
} from './store.ts'

/** A refund that the operator wants. */
export interface WantedRefund {
  /** Our id of the payment; any text. */
  readonly paymentId: string
  /** US cents of its credit; null: all that is left. */
  readonly amountCents: number | null
}

/**
 * The outcome of a refund. `finished`: an earlier refund of the payment was still open, and was carried out in place
 * of this one. `refused`: the payment provider does not make it, and nothing was posted. `elsewhere`: it was paid at another payment provider.
 */
export type RefundOutcome =
  | { readonly kind: 'refunded' | 'finished'; readonly reversal: string }
  | { readonly kind: 'unknown' | 'refused' }
  | { readonly kind: 'elsewhere'; readonly paidAt: PaymentProviderName }
  | { readonly kind: 'too_much'; readonly leftCents: number }

interface RefundRequest {
  readonly payment: Pick<ReversiblePayment, 'id' | 'payment'>
  readonly request: string
  /** US cents, with tax. */
  readonly amountCents: number
}

/**
 * Refunds a payment at the payment provider, and takes its credit back. The request is written down first: where its outcome is unknown
 * it stays open, and is carried out under the same id by the next call or by the reconciliation, so that it is never made twice. Throws
 * `Refused` where the payment provider can't be asked; the request stays open then.
 */
export async function refundPayment(
  dependencies: SubscriptionRefreshDependencies,
  wanted: WantedRefund,
): Promise<RefundOutcome> {
  if (!isUuid(wanted.paymentId)) return { kind: 'unknown' }
  const begun = await beginRefund(dependencies, wanted)
  if (!('refund' in begun)) return begun
  const reversal = await carryOut(dependencies, begun.refund)
  return reversal === null ? { kind: 'refused' } : { kind: begun.kind, reversal }
}

type BegunRefund =
  | { readonly kind: 'refunded' | 'finished'; readonly refund: RefundRequest }
  | Exclude<RefundOutcome, { reversal: string } | { kind: 'refused' }>

/** Writes the request of a refund down, or finds the one that is open. */
function beginRefund(
  { database, clock, random, provider }: SubscriptionRefreshDependencies,
  { paymentId, amountCents }: WantedRefund,
): Promise<BegunRefund> {
  return database.transaction(async (tx) => {
    const payment = await lockPaid(tx, paymentId)
    if (payment === null) return { kind: 'unknown' }
    if (payment.provider !== provider.name) return { kind: 'elsewhere', paidAt: payment.provider }
    if (payment.request !== null) return { kind: 'finished', refund: requestOf(payment, payment.request) }
    const leftCents = payment.amountCents - payment.reversedCents
    const wantedCents = amountCents ?? leftCents
    if (wantedCents < 1 || wantedCents > leftCents) return { kind: 'too_much', leftCents }
    const takenCents = Math.max(-(await sumMovements(tx, payment.id)), 0)
    const grossCents = grossOfCredit(payment, payment.reversedCents + wantedCents) - takenCents
    const request = uuidV7(clock.now(), random)
    await openRefundRequest(tx, payment.id, request, grossCents)
    return { kind: 'refunded', refund: { payment, request, amountCents: grossCents } }
  })
}

/** Carries out requests of refunds whose outcome is unknown, at most 100. Returns how many there were. */
export async function finishRefunds(dependencies: SubscriptionRefreshDependencies): Promise<number> {
  const { database, provider, log } = dependencies
  const open = await selectRefundRequests(database, provider.name, 100)
  for (const payment of open) {
    if (payment.request === null) continue
    await carryOut(dependencies, requestOf(payment, payment.request)).catch((error: unknown) =>
      log.warn({ err: error, payment: payment.id }, 'a refund could not be carried out; it is tried again'),
    )
  }
  return open.length
}

function requestOf(payment: ReversiblePayment, request: string): RefundRequest {
  return { payment, request, amountCents: payment.requestCents }
}

/** Asks the payment provider for the refund, and applies it. Null: the payment provider does not make it. */
async function carryOut(
  dependencies: SubscriptionRefreshDependencies,
  { payment, request, amountCents }: RefundRequest,
): Promise<string | null> {
  const reversal = await dependencies.provider.refund({ payment: payment.payment, amountCents, request })
  // One that was made is closed by the transaction that posts it.
  if (reversal === null) await closeRefundRequest(dependencies.database, payment.id, request)
  else await refreshReversal(dependencies, reversal)
  return reversal
}
