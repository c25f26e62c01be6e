import { entitledPlan } from '../billing/plans/cover.ts'
import { readPlanState } from '../billing/plans/readPlan.ts'
import { setSubscription } from '../billing/plans/setSubscription.ts'
import {
  endsAt,
  hasEnded,
  keepMeter,
  planOfSubscription,
  SUBSCRIPTION_STATUSES,
  type Subscription,
} from '../billing/plans/subscription.ts'
import type { Plan } from '../catalog/plan.ts'
import { fieldsThatDiffer } from '../identity/audit/note.ts'
import { changeByShell } from '../identity/audit/shell.ts'
import { findAnyOrganization, findOrganizationByName } from '../identity/organizations/find.ts'
import type { Database } from '../infra/postgres/database.ts'
import { parseInstant } from '../lib/instant.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import { hasLiveSubscription } from '../payments/subscriptions/find.ts'
import {
  CONFIG_OPTION,
  type Command,
  CommandFailure,
  DATA_DIR_OPTION,
  type Invocation,
  UsageFailure,
} from './command.ts'
import { configOf, orThrow, withDatabase } from './environment.ts'

/** `tollgate subscriptions set --org NAME --plan KEY --status STATUS --until WHEN` */
export const setSubscriptionCommand: Command = {
  words: ['subscriptions', 'set'],
  summary: 'Subscribe an organization to a plan, or change its subscription',
  options: [
    { name: 'org', value: 'NAME', summary: 'the organization whose calls the plan covers', required: true },
    { name: 'plan', value: 'KEY', summary: 'a plan of the settings file', required: true },
    {
      name: 'status',
      value: 'STATUS',
      summary: `${SUBSCRIPTION_STATUSES.join(', ')}; the first two entitle`,
      required: true,
    },
    {
      name: 'until',
      value: 'WHEN',
      summary: 'end of the period: a time from now (30d) or an ISO date',
      required: true,
    },
    { name: 'from', value: 'WHEN', summary: 'its start, an ISO date', preset: 'that of the current period, or now' },
    { name: 'cancel-at-period-end', value: null, summary: 'it will not be renewed, and has no grace after its end' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: [
    'tollgate subscriptions set --org acme --plan starter --status active --until 30d',
    'tollgate subscriptions set --org acme --plan starter --status past_due --until 2031-08-01',
  ],
  run: async (invocation, context) => {
    const status = invocation.required('status')
    if (!SUBSCRIPTION_STATUSES.some((known) => known === status)) {
      throw new UsageFailure(`--status "${status}" is not known: use one of ${SUBSCRIPTION_STATUSES.join(', ')}`)
    }
    const { plans } = (await configOf(invocation, context)).settings
    const planKey = invocation.required('plan')
    refuseUnknownPlan(plans, planKey)
    return await withDatabase(invocation, context, async (database, clock) => {
      const nowMs = clock.now()
      const periodEndMs = instantOf(invocation, 'until', nowMs) ?? nowMs
      const fromMs = instantOf(invocation, 'from', nowMs)
      const organization = orThrow(await findOrganizationByName(database, invocation.required('org')))
      await refuseOfProvider(database, organization)
      const { subscription: before } = await readPlanState(database, organization.id, nowMs)
      const isUnderWay = before !== null && nowMs >= before.periodStartMs && !hasEnded(before, nowMs)
      const periodStartMs = fromMs ?? (isUnderWay ? before.periodStartMs : nowMs)
      if (periodEndMs <= periodStartMs) {
        throw new UsageFailure(
          `--until must be after the period's start, ${toTimestamp(periodStartMs)}; set that with --from`,
        )
      }
      const cancelAtPeriodEnd = invocation.flag('cancel-at-period-end')
      const period = { planKey, status, periodStartMs, periodEndMs, cancelAtPeriodEnd }
      const subscription = isUnderWay && fromMs === null ? keepMeter(before, period) : period
      await changeSubscription({ database, clock, random: context.randomBytes }, organization.id, before, subscription)
      return {
        json: toJson(organization.name, subscription),
        text: `"${organization.name}" has the plan ${planKey}, ${status}, ${periodOf(subscription)}.\n`,
      }
    })
  },
}

/** Sets a subscription, and says so in the organization's audit log. */
async function changeSubscription(
  dependencies: Parameters<typeof changeByShell>[0],
  organizationId: string,
  before: Subscription | null,
  after: Subscription,
): Promise<void> {
  const changed = await changeByShell(dependencies, async (tx, note) => {
    await setSubscription(tx, organizationId, after, dependencies.clock.now())
    const fields = fieldsThatDiffer(before === null ? null : fieldsOf(before), fieldsOf(after))
    if (fields === null) return
    await note({ organizationId, action: 'subscription.changed', subjectId: organizationId, ...fields })
  })
  orThrow(changed)
}

/** A subscription at a payment provider follows that alone: what is set here would be gone within the hour. */
async function refuseOfProvider(database: Database, { id, name }: { id: string; name: string }): Promise<void> {
  if (!(await hasLiveSubscription(database, id))) return
  throw new CommandFailure(
    `"${name}" has a subscription at the payment provider, which decides: change or cancel it there`,
  )
}

/** `tollgate subscriptions show --org NAME` */
export const showSubscriptionCommand: Command = {
  words: ['subscriptions', 'show'],
  summary: "Show an organization's subscription, and what is used of its plan",
  options: [{ name: 'org', value: 'NAME', summary: 'whose', required: true }, DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate subscriptions show --org acme'],
  run: async (invocation, context) => {
    const { plans } = (await configOf(invocation, context)).settings
    return await withDatabase(invocation, context, async (database, clock) => {
      const organization = orThrow(await findAnyOrganization(database, invocation.required('org')))
      return await show(database, plans, organization, clock.now())
    })
  },
}

async function show(
  database: Database,
  plans: readonly Plan[],
  { id, name }: { id: string; name: string },
  nowMs: number,
) {
  const { subscription, usage } = await readPlanState(database, id, nowMs)
  if (subscription === null) {
    return { json: { org: name, status: 'none', entitled: false }, text: `"${name}" was never subscribed.\n` }
  }
  const plan = planOfSubscription(plans, subscription)
  const planKey = plan?.key ?? subscription.planKey
  const { status } = subscription
  const entitling = entitledPlan(plans, subscription, nowMs)
  const quota = plan?.quota
  const of = (used: bigint, most: number | undefined) => `${used}${most === undefined ? '' : ` of ${most}`}`
  const backstop =
    quota === undefined || quota.backstopMicrocents === 0n ? '' : ` of $${printUsd(quota.backstopMicrocents)}`
  return {
    json: {
      ...toJson(name, { ...subscription, planKey }),
      entitled: entitling !== null,
      input_tokens: String(usage.inputTokens),
      output_tokens: String(usage.outputTokens),
      weekly_tokens: String(usage.weeklyTokens),
      list_usd: printUsd(usage.listMicrocents),
    },
    text: [
      `"${name}": plan ${planKey}${plan === undefined ? ', which is not in the settings file,' : ''} ${status}, ${periodOf(subscription)}.`,
      coverOf(subscription, entitling, nowMs),
      `Input tokens: ${of(usage.inputTokens, quota?.inputTokens)}`,
      `Output tokens: ${of(usage.outputTokens, quota?.outputTokens)}`,
      `Tokens of the last 7 days: ${of(usage.weeklyTokens, quota?.weeklyTokens)}`,
      `By list price: $${printUsd(usage.listMicrocents)}${backstop}`,
      '',
    ].join('\n'),
  }
}

function coverOf(subscription: Subscription, entitling: Plan | null, nowMs: number): string {
  if (entitling === null) return 'It covers no calls now.'
  if (!hasEnded(subscription, nowMs)) return 'It covers calls now.'
  const untilMs = endsAt(subscription, entitling.graceMs)
  return `Its period has ended. Until it is renewed it covers calls to ${toTimestamp(untilMs)}.`
}

function instantOf(invocation: Invocation, option: string, nowMs: number): number | null {
  const typed = invocation.text(option)
  if (typed === undefined) return null
  const instantMs = parseInstant(typed, nowMs)
  if (instantMs !== null) return instantMs
  throw new UsageFailure(
    `--${option} "${typed}" is not understood: use a time from now such as 30d or 12h, or an ISO date such as 2031-12-31 or 2031-12-31T18:00:00Z`,
  )
}

function refuseUnknownPlan(plans: readonly Plan[], planKey: string): void {
  if (plans.some(({ key }) => key === planKey)) return
  const keys = plans.map(({ key }) => key)
  throw new CommandFailure(
    keys.length === 0
      ? `there is no plan "${planKey}", since the settings file has none: add a section 'plans' to it`
      : `there is no plan "${planKey}" in the settings file: use ${keys.join(', ')}`,
  )
}

function periodOf({ periodStartMs, periodEndMs, cancelAtPeriodEnd }: Subscription): string {
  const end = `${toTimestamp(periodStartMs)} to ${toTimestamp(periodEndMs)}`
  return cancelAtPeriodEnd ? `${end}, not to be renewed` : end
}

function toJson(org: string, subscription: Subscription) {
  return { org, ...fieldsOf(subscription) }
}

function fieldsOf(subscription: Subscription) {
  return {
    plan: subscription.planKey,
    status: subscription.status,
    period_start: toTimestamp(subscription.periodStartMs),
    period_end: toTimestamp(subscription.periodEndMs),
    cancel_at_period_end: subscription.cancelAtPeriodEnd,
  }
}
