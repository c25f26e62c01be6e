/** Organizations, as operators see and make them. */

import { z } from 'zod'
import { readFigures } from '../../billing/admission/accounts/figures.ts'
import { openAccount, readBalances } from '../../billing/admission/balance/balance.ts'
import { readPlanState } from '../../billing/plans/readPlan.ts'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import { showIdList } from '../../http/list.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { SessionPrincipal } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import { inTransaction } from '../../identity/audit/inTransaction.ts'
import { recordAuditEntry } from '../../identity/audit/record.ts'
import { createOrganization } from '../../identity/organizations/create.ts'
import { listOrganizationPage } from '../../identity/organizations/find.ts'
import type { Organization } from '../../identity/organizations/organization.ts'
import { cursorPage, LIST_SHAPE } from '../../lib/listPage.ts'
import { ok } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { Freeze } from '../../payments/freezes/freeze.ts'
import { listFreezes } from '../../payments/freezes/freezes.ts'
import { findAnyOperatedOrganization, type OperatorDependencies, operatorOf } from './dependencies.ts'

const instant = z.string().meta({ format: 'date-time' })
const microcents = z
  .string()
  .regex(/^-?\d+$/)
  .meta({ description: 'Micro-cents (a millionth of a US cent), as digits.' })

const standing = z
  .enum(['established', 'new'])
  .meta({ description: '`new`: it began with the limits of new accounts.' })

const ORGANIZATION = {
  id: z.string().meta({ format: 'uuid' }),
  name: z.string(),
  standing,
  created_at: instant,
  notify_addresses: z.array(z.string()),
  deleted_at: instant.nullable().meta({ description: 'Null: it is not deleted. Its name is erased then.' }),
}

export const operatedOrganization = z.object(ORGANIZATION).meta({ id: 'OperatedOrganization' })
export const operatedOrganizationPage = cursorPage(
  z.object({ ...ORGANIZATION, balance_microcents: microcents }).meta({ id: 'ListedOrganization' }),
  'The newest first.',
  'OperatedOrganizationPage',
)
export const operatedOrganizationsQuery = z.object(LIST_SHAPE)
export const newOrganization = z
  .strictObject({ name: z.string().min(1).max(64), standing: standing.default('established') })
  .meta({ id: 'NewOrganization' })

export const freezeEntry = z.object({
  reason: z.enum(['operator', 'dispute', 'screening']),
  cause: z.string().meta({ description: 'Of a dispute: the payment provider and its id of it. Empty else.' }),
  note: z.string().nullable(),
  frozen_at: instant,
})

export const organizationDetails = z
  .object({
    ...ORGANIZATION,
    is_new: z.boolean().meta({ description: 'Whether it has the limits of new accounts now.' }),
    balance_microcents: microcents,
    held_microcents: microcents,
    day_spend_microcents: microcents,
    daily_limit_microcents: microcents.nullable(),
    month_spend_microcents: microcents,
    monthly_limit_microcents: microcents.nullable(),
    enforcement: z.enum(['stop_running', 'block_launch', 'notify_only']).nullable(),
    plan: z.string().nullable(),
    plan_status: z.string(),
    plan_period_end: instant.nullable(),
    freezes: z.array(freezeEntry).meta({ description: 'It may pay while there is none.' }),
  })
  .meta({ id: 'OrganizationDetails' })

/** GET /operator/organizations. */
export function showOrganizations({ database }: OperatorDependencies): Handle<SessionPrincipal> {
  return showIdList({
    name: 'organizations',
    query: operatedOrganizationsQuery,
    async find(_call, beforeId, limit) {
      const found = await listOrganizationPage(database, beforeId, limit)
      const ids = found.map(({ id }) => id)
      const balances = await readBalances(database, ids)
      return found.map((organization) => ({ ...organization, balance: balances.get(organization.id) ?? 0n }))
    },
    toWire: ({ balance, ...organization }) => ({
      ...organizationToWire(organization),
      balance_microcents: String(balance),
    }),
  })
}

/** POST /operator/organizations. */
export function postNewOrganization(dependencies: OperatorDependencies): Prepare<SessionPrincipal> {
  const { database, clock, random } = dependencies
  return (call) => {
    const checked = validate(newOrganization, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const actor = operatorOf(dependencies, call)
    return ok(async (attempt) => {
      const made = await inTransaction(
        database,
        null,
        async (tx) => {
          const organization = await createOrganization(tx, { clock, randomBytes: random, openAccount }, checked.value)
          const { id, name } = organization
          await recordAuditEntry(tx, random, clock.now(), {
            organizationId: id,
            actor,
            action: 'organization.created',
            subjectId: id,
            before: null,
            after: { name, standing: organization.standing },
          })
          return organization
        },
        async (organization) => (attempt === null ? [] : attempt.keep(keptJson(organizationToWire(organization), 201))),
      )
      return made.ok ? jsonAnswer(organizationToWire(made.value), 201) : made.refusal
    })
  }
}

/** GET /operator/organizations/{id}. */
export function showOrganizationDetails({ database, clock }: OperatorDependencies): Handle<SessionPrincipal> {
  return async (call) => {
    const [asked = ''] = call.parameters
    const organization = await findAnyOperatedOrganization(database, asked)
    const { id } = organization
    const nowMs = clock.now()
    const figures = await readFigures(database, id, nowMs)
    const { subscription } = await readPlanState(database, id, nowMs)
    const freezes = await listFreezes(database, id)
    const limit = (microcents: bigint | null | undefined) => (microcents == null ? null : String(microcents))
    const body: z.infer<typeof organizationDetails> = {
      ...organizationToWire(organization),
      is_new: figures?.isNew ?? false,
      balance_microcents: String(figures?.balanceMicrocents ?? 0n),
      held_microcents: String(figures?.heldMicrocents ?? 0n),
      day_spend_microcents: String(figures?.daySpentMicrocents ?? 0n),
      daily_limit_microcents: limit(figures?.dailyLimitMicrocents),
      month_spend_microcents: String(figures?.monthSpentMicrocents ?? 0n),
      monthly_limit_microcents: limit(figures?.monthlyLimitMicrocents),
      enforcement: figures?.enforcement ?? null,
      plan: subscription?.planKey ?? null,
      plan_status: subscription?.status ?? 'none',
      plan_period_end: subscription === null ? null : toTimestamp(subscription.periodEndMs),
      freezes: freezes.map(freezeToWire),
    }
    return jsonAnswer(body)
  }
}

function organizationToWire(organization: Organization): z.infer<typeof operatedOrganization> {
  const { id, name, standing, createdAtMs, notifyAddresses, deletedAtMs } = organization
  return {
    id,
    name,
    standing,
    created_at: toTimestamp(createdAtMs),
    notify_addresses: [...notifyAddresses],
    deleted_at: deletedAtMs === null ? null : toTimestamp(deletedAtMs),
  }
}

export function freezeToWire({ reason, cause, note, frozenAtMs }: Freeze): z.infer<typeof freezeEntry> {
  return { reason, cause, note, frozen_at: toTimestamp(frozenAtMs) }
}
