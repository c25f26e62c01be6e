import { z } from 'zod'
import { SETTING_MAX_MICROCENTS } from '../lib/money.ts'
import type { Path, Report } from './document.ts'
import { amountOf, cents, microcents } from './loadAmount.ts'
import type { Plan } from './plan.ts'
import { closed, label, readShape, whole } from './shape.ts'

/** Far more than anyone sells. */
const PLANS_MAX = 100

/** Exact in every number that shows it; a million calls of a million tokens each are a thousandth of it. */
const QUOTA_MAX = Number.MAX_SAFE_INTEGER

/** Stands on the wire where there is no plan at all. */
const NO_PLAN_KEY = 'none'

const PlanShape = closed(
  {
    key: z
      .string()
      .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be 1 to 64 of a-z, 0-9, '_' and '-', the first a letter or digit")
      .refine((key) => key !== NO_PLAN_KEY, `must not be '${NO_PLAN_KEY}': that stands for having no plan`),
    name: label,
    input_tokens_monthly: whole(1, QUOTA_MAX),
    output_tokens_monthly: whole(1, QUOTA_MAX),
    weekly_tokens: whole(1, QUOTA_MAX),
    payment_price: z
      .string()
      .regex(
        /^[A-Za-z0-9_]{1,200}$/,
        "must be the payment provider's id of a price, such as price_… or local_2000_month",
      )
      .optional(),
    max_usage_cents: cents(SETTING_MAX_MICROCENTS),
    max_usage_microcents: microcents(SETTING_MAX_MICROCENTS),
  },
  {
    models: "write 'plan_covered: true' in each model that plans cover, and remove this",
    max_usage_micro_cents: "write 'max_usage_microcents'",
    price: "the price of a plan is the payment provider's: write its id as 'payment_price'",
    stripe_price: "write 'payment_price'",
  },
)

/** A price of the local provider, which stands for itself: 2000 cents a month is `local_2000_month`. */
export const LOCAL_PRICE = /^local_([1-9][0-9]{0,7})_(day|week|month|year)$/

/** The parts of other sections that plans are read by. */
export interface PlanContext {
  /** Of all plans. */
  readonly graceMs: number
  /** The payment provider that sells them; undefined: none does. */
  readonly provider: 'local' | 'stripe' | undefined
}

/** Reads the section `plans`: what was good of it, in the order of the file. The rest is reported. */
export function loadPlans(
  value: unknown,
  { graceMs, provider }: PlanContext,
  report: Report,
  lineOf: (path: Path) => number,
): readonly Plan[] {
  // A section whose entries are all in comments is empty.
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) {
    report(['plans'], "must be a list with one '- key: …' for each plan")
    return []
  }
  if (value.length > PLANS_MAX) report(['plans'], `must have at most ${PLANS_MAX} entries`)
  const plans: Plan[] = []
  const first = new Map<string, Path>()
  for (const [index, entry] of value.slice(0, PLANS_MAX).entries()) {
    const path: Path = ['plans', index]
    const plan = loadPlan(entry, graceMs, path, report)
    if (plan === null) continue
    const earlier = first.get(plan.key)
    const { paymentPrice } = plan
    const isSold = plans.some((other) => paymentPrice !== undefined && other.paymentPrice === paymentPrice)
    if (provider === 'local' && paymentPrice !== undefined && !LOCAL_PRICE.test(paymentPrice))
      report([...path, 'payment_price'], 'must be a price of the local payment provider, such as local_2000_month')
    if (provider === 'stripe' && paymentPrice !== undefined && LOCAL_PRICE.test(paymentPrice))
      report(
        [...path, 'payment_price'],
        "is a price of the local payment provider: write Stripe's id of a price, such as price_…",
      )
    if (isSold) report([...path, 'payment_price'], 'is the price of another plan: a price stands for one plan')
    if (earlier !== undefined) report([...path, 'key'], `is the key of the plan in line ${lineOf(earlier)}: change one`)
    else first.set(plan.key, [...path, 'key'])
    plans.push(plan)
  }
  return plans
}

function loadPlan(value: unknown, graceMs: number, path: Path, report: Report): Plan | null {
  const read = readShape(PlanShape, value, path, report)
  const backstop = read && amountOf(read, 'max_usage', path, report)
  if (read === null || backstop === 'refused') return null
  return {
    key: read.key,
    name: read.name,
    graceMs,
    ...(read.payment_price === undefined ? {} : { paymentPrice: read.payment_price }),
    quota: {
      inputTokens: read.input_tokens_monthly,
      outputTokens: read.output_tokens_monthly,
      weeklyTokens: read.weekly_tokens,
      backstopMicrocents: backstop ?? 0n,
    },
  }
}
