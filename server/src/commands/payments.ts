import { findAnyOrganization, namesOfOrganizations } from '../identity/organizations/find.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { shortInstant, table } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import type { PaymentKind, PaymentState } from '../payments/provider/payment.ts'
import { listPayments } from '../payments/topUps/list.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'

const LIMIT_DEFAULT = 50
const LIMIT_MOST = 1_000

const NOTHING = printUsd(0n)

/** `tollgate payments list [--org NAME] [--limit N]` */
export const listPaymentsCommand: Command = {
  words: ['payments', 'list'],
  summary: 'List payments, the newest first',
  options: [
    { name: 'org', value: 'NAME', summary: 'only those of this organization' },
    { name: 'limit', value: 'N', summary: 'how many at most', preset: String(LIMIT_DEFAULT) },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate payments list --org acme'],
  run: async (invocation, context) => {
    const limit = limitOf(invocation.text('limit'))
    const name = invocation.text('org')
    return await withDatabase(invocation, context, async (database) => {
      const only = name === undefined ? null : orThrow(await findAnyOrganization(database, name))
      const { payments } = await listPayments(database, only?.id ?? null, null, limit)
      const names = await namesOfOrganizations(
        database,
        payments.map(({ organizationId }) => organizationId),
      )
      const rows = payments.map((payment) => ({
        id: payment.id,
        org: names.get(payment.organizationId) ?? payment.organizationId,
        kind: payment.kind,
        amount_usd: printUsd(BigInt(payment.amountCents) * MICROCENTS_PER_CENT),
        reversed_usd: printUsd(BigInt(payment.reversedCents) * MICROCENTS_PER_CENT),
        state: payment.state,
        provider: payment.provider,
        created_at: toTimestamp(payment.createdAtMs),
        paid_at: payment.paidAtMs === null ? null : toTimestamp(payment.paidAtMs),
        reason: payment.reason,
      }))
      return {
        json: { payments: rows },
        text: table(
          ['CREATED', 'ID', ...(only === null ? ['ORGANIZATION'] : []), 'USD', 'STATE'],
          rows.map((row) => [
            shortInstant(row.created_at),
            row.id,
            ...(only === null ? [row.org] : []),
            row.amount_usd,
            stateOf(row),
          ]),
          'There are no payments. Those for subscriptions are listed by the payment provider alone.',
          context.stdoutColumns,
        ),
      }
    })
  },
}

interface ListedRow {
  readonly kind: PaymentKind
  readonly state: PaymentState
  readonly reversed_usd: string
  readonly reason: string | null
}

/** Such as `paid by auto-pay, 5.00 taken back`, or `failed: The saved card was declined.` */
function stateOf({ kind, state, reversed_usd: reversed, reason }: ListedRow): string {
  const by = kind === 'auto_pay' ? ' by auto-pay' : ''
  const back = reversed === NOTHING ? '' : `, ${reversed} taken back`
  // Every payment expires for the same reasons.
  const why = reason === null || state === 'expired' ? '' : `: ${reason}`
  return `${state}${by}${back}${why}`
}

function limitOf(typed: string | undefined): number {
  if (typed === undefined) return LIMIT_DEFAULT
  const limit = /^\d{1,4}$/.test(typed) ? Number(typed) : 0
  if (limit >= 1 && limit <= LIMIT_MOST) return limit
  throw new UsageFailure(`--limit "${typed}" is not a number of payments: use 1 to ${LIMIT_MOST}`)
}
