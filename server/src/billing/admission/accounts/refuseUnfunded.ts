import type { Queryable } from '../../../infra/postgres/database.ts'
import type { Refusal } from '../../../lib/errors.ts'
import type { Clock } from '../../../lib/time.ts'
import type { Coverable } from '../../plans/cover.ts'
import type { Plans } from '../../plans/plans.ts'
import { insufficientFor } from '../gateRefusals.ts'
import { insufficientFunds } from '../gates.ts'
import { readFigures } from './figures.ts'

interface UnpaidDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly money: { readonly plans: Pick<Plans, 'ask'> }
}

/** A call that every plan is for: the plan answers `none` only where the organization is not entitled now. */
const ANY_CALL: Coverable = { modality: 'chat', planCovered: true, usageFactorThousandths: 1_000 }

/**
 * Returns the refusal of work that costs its caller nothing, such as a webhook test, for an organization that is neither
 * funded (credit beside what jobs hold, and no spending limit reached that refuses calls) nor entitled by a subscription;
 * null where it is either. By the gates of paid calls (P1, P2). A plan that can't be read entitles to nothing. Rejects while
 * the account can't be read.
 */
export async function refuseUnfunded(
  { database, clock, money }: UnpaidDependencies,
  organizationId: string,
): Promise<Refusal | null> {
  const nowMs = clock.now()
  const { kind } = await money.plans.ask(organizationId, ANY_CALL, nowMs)
  if (kind !== 'none' && kind !== 'unreadable') return null
  const figures = await readFigures(database, organizationId, nowMs)
  const gate = figures === null ? 'balance' : insufficientFunds(figures)
  return gate === null ? null : insufficientFor(gate, 'this request')
}
