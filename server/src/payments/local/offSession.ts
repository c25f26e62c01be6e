/** Payments by saved cards of the local payment provider: each card does what its words say. */

import type { Database } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { type AutoPaymentFacts, GIVEN_UP, type OffSessionProvider } from '../provider/autoPayment.ts'
import type { LocalCard } from './checkout.ts'
import { LOCAL_AUTO_PAYMENT, type LocalAutoPayment } from './payment.ts'
import {
  insertLocalObjectOnce,
  selectLocalObject,
  selectLocalObjects,
  selectLocalObjectsOf,
  upsertLocalObject,
} from './store.ts'

/** The first letters of ids. */
const SAVED_CARD = 'lsc_'

interface LocalSavedCard {
  readonly customer: string
  readonly card: LocalCard
}

export function createLocalOffSession({
  database,
  clock,
  receiptUrl,
}: {
  readonly database: Database
  readonly clock: Clock
  /** Returns the address of the page of a payment's receipt. */
  readonly receiptUrl: (payment: string) => string
}): OffSessionProvider {
  const factsOf = (payment: string, made: LocalAutoPayment) => factsOfPayment(payment, made, receiptUrl(payment))
  return {
    async saveMethod(customer, card) {
      await upsertLocalObject(database, `${SAVED_CARD}${customer}`, { customer, card }, clock.now())
      return true
    },
    async savedMethod(customer) {
      const found = await selectLocalObject<LocalSavedCard>(database, `${SAVED_CARD}${customer}`)
      return found?.card ?? null
    },
    async payOffSession({ paymentId, customer, method, amountCents }) {
      const nowMs = clock.now()
      const id = `${LOCAL_AUTO_PAYMENT}${paymentId}`
      await insertLocalObjectOnce(
        database,
        id,
        { paymentId, customer, card: method, amountCents, createdAtMs: nowMs },
        nowMs,
      )
      const made = await selectLocalObject<LocalAutoPayment>(database, id)
      if (made === null) throw new Error(`the local payment provider has lost the payment ${id}`)
      return factsOf(id, made)
    },
    /** None is ever `begun`: it is made, or not asked for. */
    async giveUp({ paymentId }) {
      const id = `${LOCAL_AUTO_PAYMENT}${paymentId}`
      const made = await selectLocalObject<LocalAutoPayment>(database, id)
      return made === null ? GIVEN_UP : factsOf(id, made)
    },
    async listPayments(customer, sinceMs) {
      const all = await selectLocalObjectsOf<LocalAutoPayment>(database, customer, LOCAL_AUTO_PAYMENT)
      const recent = all.filter(({ body }) => body.createdAtMs >= sinceMs)
      return recent.map(({ id, body }) => ({ kind: 'auto_pay', ...body, facts: factsOf(id, body) }))
    },
    async *listAutoPayments({ fromMs, untilMs }) {
      for (const { id, body } of await selectLocalObjects<LocalAutoPayment>(database, LOCAL_AUTO_PAYMENT, fromMs)) {
        if (body.createdAtMs < fromMs || body.createdAtMs >= untilMs) continue
        yield { kind: 'auto_pay', ...body, facts: factsOf(id, body) }
      }
    },
  }
}

function factsOfPayment(
  payment: string,
  { card, amountCents }: LocalAutoPayment,
  receiptUrl: string,
): AutoPaymentFacts {
  switch (card) {
    case 'succeeds':
      return { state: 'paid', payment, amountCents, grossCents: amountCents, receiptUrl }
    case 'authenticates':
      return { state: 'authentication', reason: 'The bank asks the person who has the card to confirm the payment.' }
    case 'declines':
    case 'declines_later':
      return { state: 'declined', reason: 'The saved card was declined.' }
  }
}
