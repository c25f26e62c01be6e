import { z } from 'zod'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { getBalance, type ReadAutoPay, type ReadBurn } from './getBalance.ts'

export const balance = z
  .object({
    balance_cents: z.int().meta({ description: 'USD cents, rounded down; may be negative.' }),
    balance_dollars: z.number(),
    auto_pay_enabled: z.boolean(),
    auto_pay_threshold_cents: z.int(),
    auto_pay_amount_cents: z.int(),
    burn_cents_per_hour: z.int().nullable().meta({ description: '0: nothing is rented; null: not known.' }),
  })
  .meta({ id: 'Balance' })

/** GET /billing/balance. */
export function showBalance(database: Queryable, readBurn: ReadBurn, readAutoPay: ReadAutoPay): Handle<KeyOrSession> {
  return async ({ principal: { organizationId } }) => {
    const { balanceCents, burnCentsPerHour, autoPay } = await getBalance(
      database,
      readBurn,
      readAutoPay,
      organizationId,
    )
    const body: z.infer<typeof balance> = {
      balance_cents: balanceCents,
      balance_dollars: balanceCents / 100,
      auto_pay_enabled: autoPay !== null,
      auto_pay_threshold_cents: autoPay?.thresholdCents ?? 0,
      auto_pay_amount_cents: autoPay?.amountCents ?? 0,
      burn_cents_per_hour: burnCentsPerHour,
    }
    return jsonAnswer(body)
  }
}
