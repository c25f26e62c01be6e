import { z } from 'zod'
import type { Plan, PlanPrice } from './plan.ts'

const subscriptionPrice = z
  .object({
    amount_cents: z.int().meta({ description: 'In the minor unit of the currency.' }),
    currency: z.string().meta({ description: 'ISO 4217, lower case.' }),
    interval: z.enum(['day', 'week', 'month', 'year']),
    interval_count: z.int(),
  })
  .meta({ id: 'SubscriptionPrice' })

/** A plan as clients see it. */
export const subscriptionPlan = z
  .object({
    key: z.string().meta({ description: '`none` where there is no plan.' }),
    name: z.string(),
    price: subscriptionPrice.optional().meta({ description: 'Absent where it is not known now; never free.' }),
  })
  .meta({ id: 'SubscriptionPlan' })

/** Writes a plan with its price, which is left out where it is not known. */
export function planToWire(
  { key, name }: Pick<Plan, 'key' | 'name'>,
  price: PlanPrice | null,
): z.infer<typeof subscriptionPlan> {
  if (price === null) return { key, name }
  const { amountCents, currency, interval, intervalCount } = price
  return { key, name, price: { amount_cents: amountCents, currency, interval, interval_count: intervalCount } }
}
