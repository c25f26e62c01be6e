import { MINUTE_MS, SECOND_MS } from '../../../server/src/lib/time.ts'
import { callApi, isTransient } from '../api.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { CliFailure, Interruption } from '../failure.ts'
import { idempotencyKey } from '../idempotencyKey.ts'
import { sayNotice } from '../notice.ts'
import { pauseUnlessLeft } from '../pause.ts'
import type { System } from '../system.ts'
import { readCents } from '../values.ts'
import { dollars } from './balance.ts'

const TOP_UPS = '/manage/v1/top-ups'
const PAYMENTS = '/manage/v1/payments'
const LOOK_MS = 2 * SECOND_MS
/** A person who pays takes less; a script must not wait for ever. */
const WAIT_MS = 30 * MINUTE_MS

interface Payment {
  readonly id: string
  readonly amount_cents: number
  readonly state: 'open' | 'processing' | 'paid' | 'failed' | 'expired'
  readonly reason: string | null
  readonly checkout_url: string | null
}

/** `tollgate topup AMOUNT` */
export const topUpCommand: CliCommand = {
  words: ['topup'],
  summary: 'Begin a payment of credit, and show the page where a person pays',
  argument: { name: 'AMOUNT', summary: 'in US dollars, before tax, such as 20' },
  options: [{ name: 'wait', value: null, summary: 'wait until it is paid; Ctrl-C stops the waiting, not the payment' }],
  examples: ['tollgate topup 20', 'tollgate topup 20 --wait'],
  run: async (args, system) => {
    const begun = (await callApi(args, system, {
      method: 'POST',
      path: TOP_UPS,
      body: { amount_cents: readCents(args.argument, 'AMOUNT') },
      headers: { 'Idempotency-Key': idempotencyKey(system) },
    })) as Payment
    const where = `Pay ${dollars(begun.amount_cents)} here:\n\n${begun.checkout_url}\n\n`
    if (!args.flag('wait')) return { json: begun, text: `${where}The credit is in the balance once it is paid.\n` }
    sayNotice(system, {
      code: 'pay_here',
      message: where.slice(0, -1),
      fields: { payment_id: begun.id, checkout_url: begun.checkout_url },
    })
    const paid = await waitUntilPaid(args, system, begun)
    return { json: paid, text: `Paid: ${dollars(paid.amount_cents)} are in the balance.\n` }
  },
}

async function waitUntilPaid(args: CommandLine, system: System, begun: Payment): Promise<Payment> {
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  const untilMs = system.clock.monotonicMs() + WAIT_MS
  try {
    let payment = begun
    while (payment.state === 'open' || payment.state === 'processing') {
      if (system.clock.monotonicMs() >= untilMs) {
        throw new CliFailure(`the payment ${begun.id} is still ${payment.state} after ${WAIT_MS / MINUTE_MS} minutes`)
      }
      await pauseUnlessLeft(system.clock, LOOK_MS, leaving.signal)
      const call = { method: 'GET', path: `${PAYMENTS}/${encodeURIComponent(begun.id)}` } as const
      payment = await callApi(args, system, call, leaving.signal).then(
        (answer) => answer as Payment,
        (error: unknown) => {
          // The server may be back at the next look.
          if (leaving.signal.aborted || !isTransient(error)) throw error
          return payment
        },
      )
    }
    if (payment.state === 'paid') return payment
    throw new CliFailure(`the payment has ${payment.state}: ${payment.reason ?? 'begin another'}`)
  } catch (error) {
    if (!leaving.signal.aborted) throw error
    throw new Interruption(`left the payment ${begun.id}, which can still be paid`)
  } finally {
    forget()
  }
}
