/** The acts on payments that were paid: refunds and disputes. */

import { DAY_MS } from '../../src/lib/time.ts'
import { refundPayment } from '../../src/payments/reversals/refund.ts'
import type { Act, PaymentWorld } from './paymentWorld.ts'

export const REVERSAL_ACTS: readonly Act[] = [
  [4, refundHere],
  [4, refundThere],
  [4, endRefund],
  [4, dispute],
  [10, moveDispute],
]

/** A reversal that has ended is looked at for 30 days more; nothing of it changes later. */
const CHANGES_WITHIN_MS = 20 * DAY_MS

/** The operator refunds a payment by the command. */
async function refundHere(world: PaymentWorld): Promise<void> {
  const rows = await world.database.query<{ id: string; amount: bigint }>(
    "select id, amount_cents as amount from payments where state = 'paid' order by created_at, id",
  )
  const payment = world.oneOf(rows)
  if (payment === undefined) return
  const amountCents = world.random.percent(40) ? null : world.random.between(1, Number(payment.amount))
  const { dependencies } = world.process()
  world.start(`refund: the operator, ${amountCents ?? 'all'} of ${payment.id}`, async () => {
    const outcome = await refundPayment(dependencies, { paymentId: payment.id, amountCents })
    world.say(`refund ${outcome.kind}`)
  })
}

/** Somebody refunds a payment at the payment provider. */
function refundThere(world: PaymentWorld): void {
  const { provider, random } = world
  const payment = world.oneOf([...provider.payments.values()])?.id
  if (payment === undefined) return
  const leftCents = provider.reversals.leftOf(payment)
  if (leftCents < 1) return
  const amountCents = random.percent(40) ? leftCents : random.between(1, leftCents)
  const id = provider.reversals.refund({ payment, amountCents, request: null })
  world.say(`refund: at the provider, ${amountCents} of ${payment}: ${id}`)
}

function endRefund(world: PaymentWorld): void {
  const { provider, random, nowMs } = world
  const refund = world.oneOf(
    [...provider.reversals.all.values()].filter(
      ({ kind, state, changedAtMs }) =>
        kind === 'payment_refund' && state !== 'failed' && nowMs - changedAtMs < CHANGES_WITHIN_MS,
    ),
  )
  if (refund === undefined) return
  const state = random.percent(60) ? 'succeeded' : 'failed'
  world.say(`refund ends: ${refund.id} ${state}`)
  provider.reversals.endRefund(refund.id, state)
}

function dispute(world: PaymentWorld): void {
  const { provider, random } = world
  const payment = world.oneOf([...provider.payments.values()])
  if (payment === undefined) return
  const amountCents = random.percent(70) ? payment.grossCents : random.between(1, payment.grossCents)
  const id = provider.reversals.dispute(payment.id, amountCents, random.percent(30))
  world.say(`dispute: ${id} of ${payment.id}, ${amountCents}`)
}

function moveDispute(world: PaymentWorld): void {
  const { provider, random } = world
  const open = [...provider.reversals.all.values()].filter(({ state }) => state === 'inquiry' || state === 'open')
  const found = world.oneOf(open)
  if (found === undefined) return
  provider.reversals.moveDispute(found.id, random.percent(50))
  world.say(`dispute moves: ${found.id} is ${found.state}`)
}
