import { z } from 'zod'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import { counting } from '../../identity/audit/budget.ts'
import type { AuditedFields } from '../../identity/audit/entry.ts'
import { fieldsThatDiffer, type NoteChange, type Noter } from '../../identity/audit/note.ts'
import type { Participant, Queryable } from '../../infra/postgres/database.ts'
import { refusal } from '../../lib/errors.ts'
import { toCentsRoundingDown } from '../../lib/money.ts'
import { ok } from '../../lib/result.ts'
import { type Clock, toTimestamp } from '../../lib/time.ts'
import { readFigures } from '../admission/accounts/figures.ts'
import type { AccountLimit, JoinLimit } from '../admission/accounts/limit.ts'
import { NEW_ACCOUNT_CAP_MICROCENTS } from '../admission/gates.ts'
import {
  isWholeCents,
  LIMIT_MAX_DOLLARS,
  type LimitRequest,
  MONTHLY_MIN_DOLLARS,
  type SpendingLimit,
  toSpendingLimit,
} from './limit.ts'
import { readSpendingLimit } from './read.ts'
import { type LimitDependencies, setSpendingLimit } from './set.ts'

const enforcement = z.enum(['stop_running', 'block_launch', 'notify_only']).meta({
  description:
    'The effect of a limit that is reached: cut running streams and refuse new calls, only refuse new calls, or neither.',
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
    current_day_spend_cents: z.int().meta({ description: 'Spent in the current UTC day.' }),
    percent_used: z.number().meta({ description: 'Of the monthly limit; may pass 100.' }),
    billing_cycle_start: z.iso.datetime().meta({ description: "The UTC month's first instant." }),
    enforcement,
    auto_terminate_hours: z.int().nullable(),
  })
  .meta({ id: 'SpendingLimit' })

export const limits = z
  .object({
    spending_limit: spendingLimit.nullable().meta({ description: 'Null: none is set.' }),
    new_account: z
      .object({
        until: z.iso.datetime().meta({ description: 'A payment ends it earlier.' }),
        cap_cents: z.int().meta({ description: 'The most that may be spent within 60 minutes.' }),
        spent_cents: z.int().meta({ description: 'Spent within the last 60 minutes.' }),
      })
      .nullable()
      .meta({ description: 'The cap of new accounts. Null: the account is not new.' }),
  })
  .meta({ id: 'Limits' })

const NONE = refusal(
  'not_found',
  'No spending limit is configured. An admin can set one with PUT /v1/billing/spending-limit.',
)

/** GET /billing/spending-limit. */
export function showSpendingLimit(database: Queryable, clock: Clock): Handle<KeyOrSession> {
  return async (call) => {
    const limit = await readSpendingLimit(database, clock, call.principal.organizationId)
    return limit === null ? NONE : toResponse(limit)
  }
}

/** GET /manage/v1/limits. */
export function showLimits(database: Queryable, clock: Clock): Handle<KeyOrSession> {
  return async ({ principal: { organizationId, newUntilMs } }) => {
    const nowMs = clock.now()
    const figures = await readFigures(database, organizationId, nowMs)
    const limit = figures === null ? null : toSpendingLimit(figures, nowMs)
    const isNew = newUntilMs !== null && nowMs < newUntilMs
    const body: z.infer<typeof limits> = {
      spending_limit: limit === null ? null : limitToWire(limit),
      new_account: isNew
        ? {
            until: toTimestamp(newUntilMs),
            cap_cents: toCentsRoundingDown(NEW_ACCOUNT_CAP_MICROCENTS),
            spent_cents: toCentsRoundingDown(figures?.hourSpentMicrocents ?? 0n),
          }
        : null,
    }
    return jsonAnswer(body)
  }
}

/** PUT /billing/spending-limit. */
export function putSpendingLimit(
  dependencies: LimitDependencies,
  /** Writes changes into the audit log. */
  noter: Noter,
): Prepare<KeyOrSession> {
  return (call) => {
    const checked = validate(spendingLimitRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const wanted = checked.value
    const request: LimitRequest = {
      monthlyDollars: wanted.monthly_limit_dollars,
      dailyDollars: wanted.daily_limit_dollars ?? undefined,
      enforcement: wanted.enforcement ?? undefined,
      // The one field whose null says something (E7); the validation has taken nulls for absent.
      autoTerminateHours: isNull(call.body, 'auto_terminate_hours') ? null : wanted.auto_terminate_hours,
    }
    const { organizationId } = call.principal
    return ok(async () => {
      const note = noting(counting(organizationId, dependencies.clock.now()), noter(call))
      return toResponse(await setSpendingLimit(dependencies, organizationId, request, note))
    })
  }
}

/** Counts the change of a limit and writes it into the audit log; nothing where none of its fields has changed. */
function noting(count: Participant, note: NoteChange): JoinLimit {
  return (before, after) => {
    const wasSet = before.monthlyLimitMicrocents !== null
    const changed = fieldsThatDiffer(wasSet ? auditedFieldsOf(before) : null, auditedFieldsOf(after))
    return changed === null ? [] : [count, note({ action: 'spending_limit.changed', subjectId: null, ...changed })]
  }
}

function auditedFieldsOf(limit: AccountLimit): AuditedFields {
  const inCents = (microcents: bigint | null) => (microcents === null ? null : toCentsRoundingDown(microcents))
  return {
    monthly_limit_cents: inCents(limit.monthlyLimitMicrocents),
    daily_limit_cents: inCents(limit.dailyLimitMicrocents),
    enforcement: limit.enforcement,
    auto_terminate_hours: limit.autoTerminateHours,
  }
}

function isNull(body: unknown, field: string): boolean {
  return (
    typeof body === 'object' &&
    body !== null &&
    Object.entries(body).some(([key, value]) => key === field && value === null)
  )
}

function toResponse(limit: SpendingLimit): Response {
  return jsonAnswer(limitToWire(limit))
}

function limitToWire(limit: SpendingLimit): z.infer<typeof spendingLimit> {
  const { dailyLimitCents } = limit
  return {
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
}
