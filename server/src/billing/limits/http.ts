import { z } from 'zod'
import type { Handle } from '../../edge/pipeline.ts'
import { type ExplainIssue, validate } from '../../edge/validate.ts'
import type { Queryable } from '../../io/postgres/database.ts'
import { refusal } from '../../kernel/errors.ts'
import type { Clock } from '../../kernel/time.ts'
import { isWholeCents, LIMIT_MAX_DOLLARS, MONTHLY_MIN_DOLLARS, type SpendingLimit } from './limit.ts'
import { readSpendingLimit } from './read.ts'
import { setSpendingLimit } from './set.ts'

const enforcement = z.enum(['stop_running', 'block_launch', 'notify_only']).meta({
  description:
    'What a cap does when it is reached: cut running streams and refuse new calls, only refuse new calls, or neither.',
})

const dollars = z.number().max(LIMIT_MAX_DOLLARS).refine(isWholeCents, 'has more than 2 decimals')
const hours = z.int().min(1).max(1_000_000)

export const spendingLimitRequest = z
  .strictObject({
    monthly_limit_dollars: dollars.min(MONTHLY_MIN_DOLLARS),
    daily_limit_dollars: dollars.min(0).nullish().meta({ description: 'Omitted or null: unchanged. 0 clears it.' }),
    enforcement: enforcement
      .nullish()
      .meta({ description: 'Omitted or null: unchanged, block_launch when first set.' }),
    auto_terminate_hours: hours.nullable().optional().meta({ description: 'Omitted: unchanged. Null means never.' }),
  })
  .meta({ id: 'SpendingLimitRequest' })

export const spendingLimit = z
  .object({
    monthly_limit_cents: z.int(),
    monthly_limit_dollars: z.number(),
    daily_limit_cents: z.int().nullable(),
    daily_limit_dollars: z.number().nullable(),
    current_month_spend_cents: z.int(),
    current_month_spend_dollars: z.number(),
    current_day_spend_cents: z.int().meta({ description: 'Of the UTC day.' }),
    percent_used: z.number().meta({ description: 'Of the monthly limit; may pass 100.' }),
    billing_cycle_start: z.iso.datetime().meta({ description: "The UTC month's first instant." }),
    enforcement,
    auto_terminate_hours: z.int().nullable(),
  })
  .meta({ id: 'SpendingLimit' })

const NONE = refusal(
  'not_found',
  'No spending limit is configured. An admin sets one by PUT /v1/billing/spending-limit.',
)

/** GET /billing/spending-limit. */
export function showSpendingLimit(database: Queryable, clock: Clock): Handle {
  return async (call) => {
    const limit = await readSpendingLimit(database, clock, call.key.organizationId)
    return limit === null ? NONE : toResponse(limit)
  }
}

/** PUT /billing/spending-limit. */
export function putSpendingLimit(database: Queryable, clock: Clock): Handle {
  return async (call) => {
    const checked = validate(spendingLimitRequest, call.body, 'validation_failed', unknownField)
    if (!checked.ok) return checked.refusal
    const wanted = checked.value
    const limit = await setSpendingLimit(database, clock, call.key.organizationId, {
      monthlyDollars: wanted.monthly_limit_dollars,
      dailyDollars: wanted.daily_limit_dollars ?? undefined,
      enforcement: wanted.enforcement ?? undefined,
      // The one field whose null says something (E7); the validation has taken nulls for absent.
      autoTerminateHours: isNull(call.body, 'auto_terminate_hours') ? null : wanted.auto_terminate_hours,
    })
    return toResponse(limit)
  }
}

/** In envelope A what the schema does not know is like any other fault of a field (E5). */
const unknownField: ExplainIssue = (issue) => {
  if (issue.code !== 'unrecognized_keys') return null
  const param = (issue.keys[0] ?? '').slice(0, 64)
  return refusal('validation_failed', `There is no field '${param}' here; leave it out.`, { param })
}

function isNull(body: unknown, field: string): boolean {
  return (
    typeof body === 'object' &&
    body !== null &&
    Object.entries(body).some(([key, value]) => key === field && value === null)
  )
}

function toResponse(limit: SpendingLimit): Response {
  const { dailyLimitCents } = limit
  const body: z.infer<typeof spendingLimit> = {
    monthly_limit_cents: limit.monthlyLimitCents,
    monthly_limit_dollars: limit.monthlyLimitCents / 100,
    daily_limit_cents: dailyLimitCents,
    daily_limit_dollars: dailyLimitCents === null ? null : dailyLimitCents / 100,
    current_month_spend_cents: limit.monthSpendCents,
    current_month_spend_dollars: limit.monthSpendCents / 100,
    current_day_spend_cents: limit.daySpendCents,
    percent_used: limit.percentUsed,
    billing_cycle_start: limit.billingCycleStart,
    enforcement: limit.enforcement,
    auto_terminate_hours: limit.autoTerminateHours,
  }
  return new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } })
}
