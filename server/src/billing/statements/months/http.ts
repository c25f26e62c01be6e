import { z } from 'zod'
import { jsonAnswer } from '../../../http/jsonAnswer.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { refusal } from '../../../lib/errors.ts'
import { toTimestamp } from '../../../lib/time.ts'
import { microcentsField } from '../charges/wire.ts'
import { parseMonth, type Statement } from './month.ts'
import type { StatementReader } from './read.ts'

const creditLine = z
  .object({
    kind: z.string().meta({ description: '`credit`, `refund`, `adjustment`, `payment_refund` or `payment_dispute`.' }),
    source: z.string().meta({ description: 'The first part of the sources of these entries, such as `payment`.' }),
    entries: z.int(),
    amount_microcents: microcentsField,
  })
  .meta({ id: 'StatementCredit' })

const chargeLine = z
  .object({ model: z.string(), tier: z.string(), charges: z.int(), cost_microcents: microcentsField })
  .meta({ id: 'StatementCharge' })

export const statement = z
  .object({
    month: z.string().meta({ description: '`YYYY-MM`, UTC.' }),
    state: z
      .enum(['open', 'closed'])
      .meta({ description: '`closed` from an hour after the end of the month on, and final then.' }),
    start: z.string().meta({ format: 'date-time' }),
    end: z.string().meta({ format: 'date-time' }),
    as_of: z.string().meta({
      format: 'date-time',
      description: 'When it was added up; of a closed one, an hour after the end of the month.',
    }),
    opening_balance_microcents: microcentsField,
    credits: z.array(creditLine),
    credits_microcents: microcentsField,
    charges: z.array(chargeLine),
    charges_microcents: microcentsField,
    closing_balance_microcents: microcentsField,
  })
  .meta({ id: 'Statement' })

const NO_STATEMENT = refusal('not_found', 'There is no such statement. Name a month that has begun as YYYY-MM.')

/** GET /manage/v1/statements/{month}. */
export function showStatement(reader: StatementReader): Handle<KeyOrSession> {
  return async ({ parameters: [name = ''], principal }) => {
    const month = parseMonth(name)
    const found = month === null ? null : await reader.read(principal.organizationId, month)
    if (found === null) return NO_STATEMENT
    return jsonAnswer(statementToWire(found))
  }
}

function statementToWire(found: Statement): z.infer<typeof statement> {
  return {
    month: found.month.name,
    state: found.state,
    start: toTimestamp(found.month.startMs),
    end: toTimestamp(found.month.endMs),
    as_of: toTimestamp(found.asOfMs),
    opening_balance_microcents: String(found.openingMicrocents),
    credits: found.credits.map(({ kind, source, entries, amountMicrocents }) => ({
      kind,
      source,
      entries: Number(entries),
      amount_microcents: String(amountMicrocents),
    })),
    credits_microcents: String(found.creditsMicrocents),
    charges: found.charges.map(({ model, tier, charges, costMicrocents }) => ({
      model,
      tier,
      charges: Number(charges),
      cost_microcents: String(costMicrocents),
    })),
    charges_microcents: String(found.chargesMicrocents),
    closing_balance_microcents: String(found.closingMicrocents),
  }
}
