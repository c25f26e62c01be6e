/** The refunds, disputes and lists of the local payment provider. */

import type { PaymentProvider } from '../provider/provider.ts'
import type { ListedCheckout, ProviderWindow } from '../provider/reversal.ts'
import type { LocalCheckout } from './checkout.ts'
import type { LocalProviderDependencies } from './dependencies.ts'
import { happenTo, LOCAL_DISPUTE, LOCAL_REFUND, lockLocalPayment, makeLocalRefund } from './happen.ts'
import {
  factsOfDispute,
  factsOfRefund,
  LOCAL_AUTO_PAYMENT,
  type LocalAutoPayment,
  type LocalDispute,
  type LocalHappening,
  type LocalPayment,
  type LocalRefund,
} from './payment.ts'
import { lockLocalObject, selectLocalObject, selectLocalObjects, updateLocalObject } from './store.ts'

export interface LocalReversals
  extends Pick<
    PaymentProvider,
    | 'refund'
    | 'retrieveReversal'
    | 'retrieveOwner'
    | 'listCheckouts'
    | 'listReversals'
    | 'listEvents'
    | 'cancelSubscription'
  > {
  /**
   * Makes something happen to a payment, by the local payment provider's id of it: a refund or a dispute of `amountCents`, or the end of
   * its last ones. Returns the id of the refund or dispute; null where it can't happen now.
   */
  happen(payment: string, happening: LocalHappening, amountCents: number | null): Promise<string | null>
}

/** Returns the part of the local payment provider that is about refunds, disputes and lists. */
export function localReversals(
  { database, clock }: LocalProviderDependencies,
  newId: (prefix: string) => string,
): LocalReversals {
  const making = { clock, newId }
  return {
    refund: ({ payment, amountCents, request }) =>
      database.transaction(async (tx) => {
        const locked = await lockLocalPayment(tx, payment)
        const before = locked?.refunds.find(({ body }) => body.request === request)
        if (before !== undefined) return before.id
        return locked && makeLocalRefund(tx, making, locked, { amountCents, request })
      }),
    happen: (payment, happening, amountCents) =>
      database.transaction(async (tx) => {
        const locked = await lockLocalPayment(tx, payment)
        return locked && happenTo(tx, making, locked, happening, amountCents)
      }),
    async retrieveReversal(id) {
      if (id.startsWith(LOCAL_REFUND)) {
        const refund = await selectLocalObject<LocalRefund>(database, id)
        return refund && factsOfRefund(id, refund)
      }
      const dispute = id.startsWith(LOCAL_DISPUTE) ? await selectLocalObject<LocalDispute>(database, id) : null
      return dispute && factsOfDispute(id, dispute)
    },
    async retrieveOwner(payment) {
      if (payment.startsWith(LOCAL_AUTO_PAYMENT)) {
        const made = await selectLocalObject<LocalAutoPayment>(database, payment)
        return made && { kind: 'other', customer: made.customer }
      }
      const paid = await selectLocalObject<LocalPayment>(database, payment)
      const checkout = paid && (await selectLocalObject<LocalCheckout>(database, paid.checkout))
      return paid && checkout && { kind: 'checkout', checkout: listedOf(paid.checkout, checkout) }
    },
    async *listCheckouts(window) {
      for (const { id, body } of await selectLocalObjects<LocalCheckout>(database, 'lcs_', window.fromMs)) {
        const listed = listedOf(id, body)
        if (isWithin(window, listed)) yield listed
      }
    },
    async *listReversals(window) {
      for (const prefix of [LOCAL_REFUND, LOCAL_DISPUTE]) {
        const made = await selectLocalObjects<LocalRefund | LocalDispute>(database, prefix, window.fromMs)
        for (const { id: reversal, body } of made) {
          const { state, createdAtMs } = body
          if (isWithin(window, body)) yield { reversal, state, createdAtMs }
        }
      }
    },
    /** It keeps none: all that can change here is known here, or listed. */
    async *listEvents() {},
    cancelSubscription: (id) =>
      database.transaction(async (tx) => {
        const found = await lockLocalObject<object>(tx, id)
        if (found !== null) await updateLocalObject(tx, id, { ...found, status: 'canceled' }, clock.now())
      }),
  }
}

function isWithin({ fromMs, untilMs }: ProviderWindow, { createdAtMs }: { readonly createdAtMs: number }): boolean {
  return createdAtMs >= fromMs && createdAtMs < untilMs
}

/** The organization's id is in the customer's. */
function listedOf(checkout: string, found: LocalCheckout): ListedCheckout {
  const { customer, amountCents, price, state, payment } = found
  return {
    checkout,
    state: state === 'paid' ? 'complete' : state === 'expired' ? 'expired' : 'open',
    subscription: price === null ? null : payment,
    isSubscription: price !== null,
    id: found.id,
    organizationId: customer.replace(/^lcu_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
    customer,
    amountCents,
    createdAtMs: found.createdAtMs,
  }
}
