import { type RefundResult, refundCharge } from '../billing/charges/refund.ts'
import { isUuid, uuidOfHex } from '../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { printUsd } from '../lib/usd.ts'
import { centsOption } from './cents.ts'
import { type Command, CommandFailure, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { withDatabase } from './environment.ts'
import { noteOf } from './note.ts'

/** `tollgate refunds create --charge ID [--cents N] [--note TEXT]` */
export const createRefundCommand: Command = {
  words: ['refunds', 'create'],
  summary: 'Refund one charge, whole or in part, once',
  options: [
    { name: 'charge', value: 'ID', summary: "the charge, or the answer's id (chatcmpl-…)", required: true },
    { name: 'cents', value: 'N', summary: 'whole US cents', preset: 'all of it, exactly' },
    { name: 'note', value: 'TEXT', summary: 'kept with the entry in the ledger' },
    DATA_DIR_OPTION,
  ],
  examples: [
    'tollgate refunds create --charge chatcmpl-01993f8e5c7b7e0b8a35c1f2d3e4a5b6',
    'tollgate refunds create --charge 01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6 --cents 25 --note "ticket 812"',
  ],
  run: async (invocation, context) => {
    const typed = invocation.required('charge')
    const chargeId = chargeIdOf(typed)
    if (chargeId === null) {
      throw new UsageFailure(
        `--charge "${typed}" is not the id of a charge: use the id of the answer, or the charge's UUID`,
      )
    }
    const amountMicrocents = amountOf(centsOption(invocation))
    const note = noteOf(invocation)
    return await withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes } = context
      const result = await refundCharge(database, randomBytes, { chargeId, amountMicrocents, note, atMs: clock.now() })
      if (result.kind !== 'refunded') throw new CommandFailure(explain(result, chargeId))
      const amountUsd = printUsd(result.amountMicrocents)
      return {
        json: {
          charge: chargeId,
          organization_id: result.organizationId,
          amount_usd: amountUsd,
          source: result.source,
          note,
        },
        text: `Refunded $${amountUsd} of the charge ${chargeId} (${result.source}).\n`,
      }
    })
  },
}

/** The charge's id is its answer's, but for dashes and the word before it. */
function chargeIdOf(typed: string): string | null {
  const hex = typed
    .replace(/^[a-z]+-(?=[0-9a-f]{32}$)/, '')
    .replaceAll('-', '')
    .toLowerCase()
  const id = uuidOfHex(hex)
  return isUuid(id) ? id : null
}

function amountOf(cents: number | null): bigint | null {
  return cents === null ? null : BigInt(cents) * MICROCENTS_PER_CENT
}

function explain(result: Exclude<RefundResult, { kind: 'refunded' }>, chargeId: string): string {
  switch (result.kind) {
    case 'unknown':
      return `there is no charge ${chargeId}: check the id; if retention has dropped its day, use "tollgate adjustments create"`
    case 'nothing':
      return `the charge ${chargeId} cost nothing: there is nothing to refund`
    case 'repeated':
      return `the charge ${chargeId} was refunded before: use "tollgate adjustments create" to give more`
    case 'too_much':
      return `the charge ${chargeId} was $${printUsd(result.costMicrocents)}: refund at most that, or leave --cents out for all of it`
  }
}
