import { z } from 'zod'
import { planToWire, subscriptionPlan } from '../../catalog/planWire.ts'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { toTimestamp } from '../../lib/time.ts'
import { getSubscription, type ShownSubscription, type SubscriptionDependencies } from './getSubscription.ts'
import { meterOf } from './subscription.ts'

const subscriptionQuota = z
  .object({
    input_tokens_monthly: z.int().meta({ description: 'Weighted tokens of a period.' }),
    output_tokens_monthly: z.int().meta({ description: 'Reasoning tokens are output tokens.' }),
    weekly_tokens: z.int().meta({ description: 'Weighted input and output tokens of the last 7 days.' }),
    max_usage_micro_cents: z.int().meta({ description: 'The limit of a period by list price; 0: no limit.' }),
    payg_discount_bp: z.int().meta({ description: 'Always 0.', deprecated: true }),
  })
  .meta({ id: 'SubscriptionQuota' })

const subscriptionUsage = z
  .object({
    period_start: z.iso.datetime().meta({
      description:
        'When this use began: the current period, or an earlier one that had not ended when the plan was changed.',
    }),
    period_end: z.iso.datetime().meta({ description: 'When the use begins anew.' }),
    weighted_input_tokens: z.int(),
    weighted_output_tokens: z.int(),
    weekly_weighted_tokens: z.int().meta({ description: 'Weighted tokens used in the last 7 days, across periods.' }),
    cost_micro_cents: z.int().meta({ description: 'The cost of the period by list price.' }),
  })
  .meta({ id: 'SubscriptionUsage' })

export const subscription = z
  .object({
    subscribed: z.boolean().meta({ description: 'A plan covers calls now.' }),
    status: z.string().meta({ description: '`active`, `trialing`, `past_due`, `canceled`, or `none`.' }),
    cancel_at_period_end: z.boolean(),
    plan: subscriptionPlan,
    quota: subscriptionQuota,
    current_period_start: z.iso.datetime().optional(),
    current_period_end: z.iso.datetime().optional(),
    usage: subscriptionUsage
      .optional()
      .meta({ description: 'Only while subscribed and readable. Its absence does not mean that nothing was used.' }),
  })
  .meta({ id: 'Subscription' })

/** GET /billing/subscription. */
export function showSubscription(dependencies: SubscriptionDependencies): Handle<KeyOrSession> {
  return async (call) => {
    const body = toWire(await getSubscription(dependencies, call.principal.organizationId))
    return jsonAnswer(body)
  }
}

function toWire(shown: ShownSubscription): z.infer<typeof subscription> {
  const { plan } = shown
  const head = {
    subscribed: shown.isEntitled,
    status: shown.subscription?.status ?? 'none',
    cancel_at_period_end: shown.subscription?.cancelAtPeriodEnd ?? false,
    plan: planToWire(plan, shown.price),
    quota: {
      input_tokens_monthly: plan.quota.inputTokens,
      output_tokens_monthly: plan.quota.outputTokens,
      weekly_tokens: plan.quota.weeklyTokens,
      max_usage_micro_cents: Number(plan.quota.backstopMicrocents),
      payg_discount_bp: 0,
    },
  }
  if (shown.subscription === null) return head
  const start = toTimestamp(shown.subscription.periodStartMs)
  const end = toTimestamp(shown.subscription.periodEndMs)
  const period = { current_period_start: start, current_period_end: end }
  if (shown.usage === null) return { ...head, ...period }
  const { inputTokens, outputTokens, weeklyTokens, listMicrocents } = shown.usage
  const meter = meterOf(shown.subscription)
  return {
    ...head,
    ...period,
    usage: {
      period_start: toTimestamp(meter.startMs),
      period_end: toTimestamp(meter.untilMs),
      weighted_input_tokens: Number(inputTokens),
      weighted_output_tokens: Number(outputTokens),
      weekly_weighted_tokens: Number(weeklyTokens),
      cost_micro_cents: Number(listMicrocents),
    },
  }
}
