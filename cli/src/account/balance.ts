import { facts } from '../../../server/src/lib/table.ts'
import { callApi } from '../api.ts'
import type { CliCommand } from '../command.ts'

interface Balance {
  readonly balance_cents: number
  readonly auto_pay_enabled: boolean
  readonly auto_pay_threshold_cents: number
  readonly auto_pay_amount_cents: number
}

/** `tollgate balance` */
export const balanceCommand: CliCommand = {
  words: ['balance'],
  summary: "Show the organization's credit",
  options: [],
  examples: ['tollgate balance'],
  run: async (args, system) => {
    const balance = (await callApi(args, system, { method: 'GET', path: '/v1/billing/balance' })) as Balance
    const { auto_pay_threshold_cents: threshold, auto_pay_amount_cents: amount } = balance
    const autoPay = balance.auto_pay_enabled ? `${dollars(amount)} when below ${dollars(threshold)}` : 'off'
    const rows: [string, string][] = [
      ['Balance', dollars(balance.balance_cents)],
      ['Auto-pay', autoPay],
    ]
    return { json: balance, text: facts(rows) }
  },
}

/** Cents as dollars: `$25.00`, `-$0.50`. */
export function dollars(cents: number): string {
  return `${cents < 0 ? '-' : ''}$${(Math.abs(cents) / 100).toFixed(2)}`
}
