import { isLocalHappening, LOCAL_HAPPENINGS } from '../payments/local/payment.ts'
import { findPaidById } from '../payments/reversals/find.ts'
import { refreshReversal } from '../payments/reversals/refresh.ts'
import { centsOption } from './cents.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { withPayments } from './paymentTools.ts'

/** `tollgate payments simulate ID --event EVENT [--cents N] [--untold]` */
export const simulatePaymentCommand: Command = {
  words: ['payments', 'simulate'],
  summary: 'Test mode only: refund or dispute a payment of the local payment provider',
  argument: { name: 'ID', summary: 'the payment, from "tollgate payments list"' },
  options: [
    { name: 'event', value: 'EVENT', summary: LOCAL_HAPPENINGS.join(', '), required: true },
    { name: 'cents', value: 'N', summary: 'whole US cents of a refund or dispute', preset: 'all that is left' },
    { name: 'untold', value: null, summary: 'as if no callback came: the server finds it within ten minutes' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: [
    'tollgate payments simulate 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --event dispute',
    'tollgate payments simulate 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --event won',
  ],
  run: async (invocation, context) => {
    const paymentId = invocation.argument
    const event = invocation.required('event')
    if (!isLocalHappening(event)) {
      throw new UsageFailure(`--event "${event}" is not known: use one of ${LOCAL_HAPPENINGS.join(', ')}`)
    }
    const amountCents = centsOption(invocation)
    return await withPayments(invocation, context, async (tools) => {
      const { local, database } = tools
      if (local === null) {
        throw new CommandFailure('this works with the local payment provider only: use the pages of yours')
      }
      const paid = await findPaidById(database, local.name, paymentId)
      if (paid === null) {
        throw new CommandFailure(`there is no paid payment ${paymentId}: "tollgate payments list" shows them`)
      }
      const reversal = await local.happen(paid.payment, event, amountCents)
      if (reversal === null) {
        throw new CommandFailure(
          `"${event}" can't happen to the payment ${paymentId} now: check the amount, and what happened before`,
        )
      }
      if (!invocation.flag('untold')) await refreshReversal(tools, reversal)
      const json = { payment: paymentId, event, object: reversal, test_mode: true }
      return { json, text: `Test mode, no real money: ${event} of the payment ${paymentId} (${reversal}).\n` }
    })
  },
}
