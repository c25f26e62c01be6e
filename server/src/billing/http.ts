import { z } from 'zod'
import type { Handle } from '../edge/pipeline.ts'
import type { Queryable } from '../io/postgres/database.ts'
import { getBalance, type ReadBurn } from './balance.ts'

export const balance = z
  .object({
    balance_cents: z.int().meta({ description: 'USD cents, rounded down; may be negative.' }),
    balance_dollars: z.number(),
    auto_pay_enabled: z.boolean(),
    auto_pay_threshold_cents: z.int(),
    auto_pay_amount_cents: z.int(),
    burn_cents_per_hour: z.int().nullable().meta({ description: 'Null means unknown, never 0.' }),
  })
  .meta({ id: 'Balance' })

/** GET /billing/balance. */
export function showBalance(database: Queryable, readBurn: ReadBurn): Handle {
  return async (call) => {
    const { balanceCents, burnCentsPerHour } = await getBalance(database, readBurn, call.key.organizationId)
    const body: z.infer<typeof balance> = {
      balance_cents: balanceCents,
      balance_dollars: balanceCents / 100,
      auto_pay_enabled: false,
      auto_pay_threshold_cents: 0,
      auto_pay_amount_cents: 0,
      burn_cents_per_hour: burnCentsPerHour,
    }
    return new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } })
  }
}
