import { readFigures } from '../billing/admission/accounts/figures.ts'
import { readPlanState } from '../billing/plans/readPlan.ts'
import { keyStateAt } from '../identity/keys/key.ts'
import { listKeys } from '../identity/keys/list.ts'
import { findAnyOrganization } from '../identity/organizations/find.ts'
import { facts, shortInstant } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import { listFreezes } from '../payments/freezes/freezes.ts'
import { type Command, DATA_DIR_OPTION } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { reasonsOf } from './freezes.ts'

/** `tollgate orgs show NAME` */
export const showOrganizationCommand: Command = {
  words: ['orgs', 'show'],
  summary: "Show an organization's balance, limits, spend and plan",
  argument: { name: 'NAME', summary: 'the name of the organization, or the id of a deleted one' },
  options: [DATA_DIR_OPTION],
  examples: ['tollgate orgs show acme'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const nowMs = clock.now()
      const organization = orThrow(await findAnyOrganization(database, invocation.argument))
      const { id } = organization
      const figures = await readFigures(database, id, nowMs)
      const { subscription } = await readPlanState(database, id, nowMs)
      const freezes = await listFreezes(database, id)
      const keys = (await listKeys(database, id)).filter((key) => keyStateAt(key, nowMs) === 'active')
      const usd = (microcents: bigint | null | undefined) => (microcents ? printUsd(microcents) : null)
      const json = {
        id,
        name: organization.name,
        standing: organization.standing,
        created_at: toTimestamp(organization.createdAtMs),
        deleted_at: organization.deletedAtMs === null ? null : toTimestamp(organization.deletedAtMs),
        is_new: figures?.isNew ?? false,
        balance_usd: printUsd(figures?.balanceMicrocents ?? 0n),
        held_usd: printUsd(figures?.heldMicrocents ?? 0n),
        day_spend_usd: printUsd(figures?.daySpentMicrocents ?? 0n),
        daily_limit_usd: usd(figures?.dailyLimitMicrocents),
        month_spend_usd: printUsd(figures?.monthSpentMicrocents ?? 0n),
        monthly_limit_usd: usd(figures?.monthlyLimitMicrocents),
        enforcement: figures?.enforcement ?? null,
        plan: subscription?.planKey ?? null,
        plan_status: subscription?.status ?? 'none',
        plan_period_end: subscription === null ? null : toTimestamp(subscription.periodEndMs),
        frozen: freezes.length === 0 ? null : reasonsOf(freezes),
        active_keys: keys.length,
        notify: organization.notifyAddresses,
      }
      return { json, text: facts(rowsOf(json)) }
    }),
}

interface Shown {
  readonly id: string
  readonly name: string
  readonly created_at: string
  readonly deleted_at: string | null
  readonly is_new: boolean
  readonly balance_usd: string
  readonly held_usd: string
  readonly day_spend_usd: string
  readonly daily_limit_usd: string | null
  readonly month_spend_usd: string
  readonly monthly_limit_usd: string | null
  readonly enforcement: string | null
  readonly plan: string | null
  readonly plan_status: string
  readonly plan_period_end: string | null
  readonly frozen: string | null
  readonly active_keys: number
  readonly notify: readonly string[]
}

function rowsOf(shown: Shown): (readonly [string, string])[] {
  const of = (spent: string, limit: string | null) => `$${spent} of ${limit === null ? 'no limit' : `$${limit}`}`
  const hasLimit = shown.daily_limit_usd !== null || shown.monthly_limit_usd !== null
  return [
    ['Name', shown.name],
    ['Id', shown.id],
    ['Made', shortInstant(shown.created_at)],
    ...(shown.deleted_at === null ? [] : [['Deleted', shortInstant(shown.deleted_at)] as const]),
    ['Standing', shown.is_new ? 'new: spends at most $20 in 60 minutes' : 'established'],
    ['Balance', `$${shown.balance_usd}`],
    ['Held for jobs', `$${shown.held_usd}`],
    ['Spent today', of(shown.day_spend_usd, shown.daily_limit_usd)],
    ['Spent this month', of(shown.month_spend_usd, shown.monthly_limit_usd)],
    ...(hasLimit ? [['At a limit', shown.enforcement ?? '-'] as const] : []),
    [
      'Plan',
      shown.plan === null
        ? 'none'
        : `${shown.plan}, ${shown.plan_status}, to ${shortInstant(shown.plan_period_end ?? '')}`,
    ],
    ...(shown.frozen === null ? [] : [['Frozen', `${shown.frozen}: it can't pay`] as const]),
    ['Active keys', `${shown.active_keys}`],
    ['Notices to', shown.notify.length === 0 ? 'nobody' : shown.notify.join(', ')],
  ]
}
