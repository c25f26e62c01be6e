import { Refused } from '../lib/errors.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { printUsd } from '../lib/usd.ts'
import { type RefundOutcome, refundPayment } from '../payments/reversals/refund.ts'
import { centsOption } from './cents.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION } from './command.ts'
import { withPayments } from './paymentTools.ts'

/** `tollgate payments refund ID [--cents N]` */
export const refundPaymentCommand: Command = {
  words: ['payments', 'refund'],
  summary: 'Give a payment back, whole or in part, and take its credit back',
  argument: { name: 'ID', summary: 'the payment, from "tollgate payments list"' },
  options: [
    { name: 'cents', value: 'N', summary: 'whole US cents of its credit', preset: 'all that is left' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: [
    'tollgate payments refund 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6',
    'tollgate payments refund 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --cents 500',
  ],
  run: async (invocation, context) => {
    const paymentId = invocation.argument
    const amountCents = centsOption(invocation)
    return await withPayments(invocation, context, async (tools) => {
      const outcome = await refundPayment(tools, { paymentId, amountCents }).catch((error: unknown) => {
        // The payment provider is asked after the refund was written down.
        throw error instanceof Refused ? new CommandFailure(writtenDown(paymentId)) : error
      })
      if (!('reversal' in outcome)) {
        throw new CommandFailure(explainRefund(outcome, paymentId))
      }
      const { kind, reversal } = outcome
      const text =
        kind === 'refunded'
          ? `Refunded the payment ${paymentId} (${reversal}).\n`
          : `An earlier refund of the payment ${paymentId} was still open: it is done now (${reversal}). Run this again for another one.\n`
      return { json: { payment: paymentId, outcome: kind, refund: reversal }, text }
    })
  },
}

function writtenDown(paymentId: string): string {
  return (
    `the refund of the payment ${paymentId} is written down, but the payment provider can't be asked at the moment: ` +
    'the server makes it once, within ten minutes of the payment provider answering again; run this again to try now'
  )
}

function explainRefund(outcome: Exclude<RefundOutcome, { reversal: string }>, paymentId: string): string {
  switch (outcome.kind) {
    case 'unknown':
      return `there is no paid payment ${paymentId}: "tollgate payments list" shows them`
    case 'elsewhere':
      return `the payment ${paymentId} was paid at the payment provider "${outcome.paidAt}", which the settings do not name: refund it with settings that do`
    case 'too_much':
      return `the payment ${paymentId} has $${printUsd(BigInt(outcome.leftCents) * MICROCENTS_PER_CENT)} left: refund at most that`
    case 'refused':
      return `the payment provider does not refund the payment ${paymentId}, and nothing was changed: look at it there`
  }
}
