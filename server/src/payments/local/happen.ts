/** Makes refunds and disputes of the local payment provider, each in the transaction of its caller. */

import type { Transaction } from '../../infra/postgres/database.ts'
import type { LocalProviderDependencies } from './dependencies.ts'
import {
  isPaidByCard,
  LOCAL_AUTO_PAYMENT,
  LOCAL_PAYMENT,
  type LocalAutoPayment,
  type LocalDispute,
  type LocalHappening,
  type LocalPaid,
  type LocalPayment,
  type LocalRefund,
  refundableCents,
} from './payment.ts'
import { insertLocalObject, lockLocalObject, selectLocalObjectsOf, updateLocalObject } from './store.ts'

/** The first letters of ids. */
export const LOCAL_REFUND = 'lre_'
export const LOCAL_DISPUTE = 'ldp_'

export interface LocalMaking extends Pick<LocalProviderDependencies, 'clock'> {
  readonly newId: (prefix: string) => string
}

/** A payment that is locked, with its refunds. */
export interface LockedLocalPayment {
  readonly payment: string
  readonly paid: LocalPaid
  readonly refunds: readonly { readonly id: string; readonly body: LocalRefund }[]
}

/** Locks a payment until the end of the transaction; null where there is none of this id, or it was not paid. */
export async function lockLocalPayment(tx: Transaction, payment: string): Promise<LockedLocalPayment | null> {
  const paid = await lockPaid(tx, payment)
  if (paid === null) return null
  const all = await selectLocalObjectsOf<LocalRefund>(tx, paid.customer, LOCAL_REFUND)
  return { payment, paid, refunds: all.filter(({ body }) => body.payment === payment) }
}

async function lockPaid(tx: Transaction, payment: string): Promise<LocalPaid | null> {
  if (payment.startsWith(LOCAL_PAYMENT)) return lockLocalObject<LocalPayment>(tx, payment)
  if (!payment.startsWith(LOCAL_AUTO_PAYMENT)) return null
  const found = await lockLocalObject<LocalAutoPayment>(tx, payment)
  return found !== null && isPaidByCard(found) ? found : null
}

/** Refunds a payment; `amountCents` null: all that is left. Null: there is not so much left. */
export async function makeLocalRefund(
  tx: Transaction,
  { clock, newId }: LocalMaking,
  { payment, paid, refunds }: LockedLocalPayment,
  { amountCents: wantedCents, request }: { readonly amountCents: number | null; readonly request: string | null },
): Promise<string | null> {
  const bodies = refunds.map(({ body }) => body)
  const leftCents = refundableCents(paid, bodies)
  const amountCents = wantedCents ?? leftCents
  if (amountCents < 1 || amountCents > leftCents) return null
  const createdAtMs = clock.now()
  const { customer } = paid
  const refund: LocalRefund = { customer, payment, amountCents, state: 'succeeded', request, createdAtMs }
  const id = newId(LOCAL_REFUND)
  await insertLocalObject(tx, id, refund, createdAtMs)
  return id
}

/** Makes something happen to a payment that is locked. Returns the refund or dispute; null where it can't happen now. */
export function happenTo(
  tx: Transaction,
  making: LocalMaking,
  locked: LockedLocalPayment,
  happening: LocalHappening,
  amountCents: number | null,
): Promise<string | null> {
  switch (happening) {
    case 'refund':
      return makeLocalRefund(tx, making, locked, { amountCents, request: null })
    case 'refund-fails':
      return endLast<LocalRefund>(tx, making, locked, LOCAL_REFUND, ['succeeded'], 'failed')
    case 'inquiry':
      return dispute(tx, making, locked, amountCents, 'inquiry')
    case 'dispute':
      return dispute(tx, making, locked, amountCents, 'open')
    case 'won':
    case 'lost':
      return endLast<LocalDispute>(tx, making, locked, LOCAL_DISPUTE, ['inquiry', 'open'], happening)
  }
}

async function dispute(
  tx: Transaction,
  { clock, newId }: LocalMaking,
  { payment, paid }: LockedLocalPayment,
  wantedCents: number | null,
  state: 'inquiry' | 'open',
): Promise<string | null> {
  const amountCents = wantedCents ?? paid.amountCents
  if (amountCents < 1 || amountCents > paid.amountCents) return null
  const createdAtMs = clock.now()
  const made: LocalDispute = { customer: paid.customer, payment, amountCents, state, createdAtMs }
  const id = newId(LOCAL_DISPUTE)
  await insertLocalObject(tx, id, made, createdAtMs)
  return id
}

/** Ends the last refund or dispute of a payment that is in one of some states. Null: there is none. */
async function endLast<T extends LocalRefund | LocalDispute>(
  tx: Transaction,
  { clock }: LocalMaking,
  { payment, paid }: LockedLocalPayment,
  prefix: string,
  from: readonly T['state'][],
  to: T['state'],
): Promise<string | null> {
  const all = await selectLocalObjectsOf<T>(tx, paid.customer, prefix)
  const open = all.filter(({ body }) => body.payment === payment && from.includes(body.state))
  const last = open.toSorted((a, b) => a.body.createdAtMs - b.body.createdAtMs).at(-1)
  if (last === undefined) return null
  await updateLocalObject(tx, last.id, { ...last.body, state: to }, clock.now())
  return last.id
}
