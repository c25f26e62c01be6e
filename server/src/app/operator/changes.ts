/** Credit and freezes, as operators grant, set and take them away. */

import { z } from 'zod'
import { grantCredit } from '../../billing/ledger/grantCredit.ts'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import type { Prepare, Work } from '../../http/onceForKey.ts'
import type { RouteRequest } from '../../http/pipeline.ts'
import type { SessionPrincipal } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { AuditedFields } from '../../identity/audit/entry.ts'
import { inTransaction } from '../../identity/audit/inTransaction.ts'
import { recordAuditEntry } from '../../identity/audit/record.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { ok } from '../../lib/result.ts'
import { FREEZE_REASONS, type Freeze } from '../../payments/freezes/freeze.ts'
import { changeFreezes, freezeOrganization, unfreezeOrganization } from '../../payments/freezes/freezes.ts'
import { findOperatedOrganization, type OperatorDependencies, operatorOf } from './dependencies.ts'
import { freezeEntry, freezeToWire } from './organizations.ts'

/** A thousand million dollars; more is a slip of the finger. */
const GRANT_CENTS_MOST = 100_000_000_000

const note = z
  .string()
  .max(500)
  .refine((text) => !text.includes('\0'), { error: 'has a NUL character' })
  .nullish()
  .meta({ description: 'Why. No customer reads it.' })

export const creditGrant = z
  .strictObject({
    amount_cents: z.int().min(1).max(GRANT_CENTS_MOST),
    note,
    promotional: z.boolean().default(false).meta({
      description: 'A gift: it does not count as the first payment of a new account.',
    }),
  })
  .meta({ id: 'CreditGrant' })

export const grantedCredit = z
  .object({
    organization_id: z.string().meta({ format: 'uuid' }),
    amount_cents: z.int(),
    source: z.string().meta({ description: 'Of the entry in the ledger.' }),
  })
  .meta({ id: 'GrantedCredit' })

export const freezeRequest = z.strictObject({ reason: z.enum(FREEZE_REASONS), note }).meta({ id: 'FreezeRequest' })
export const frozenOrganization = z
  .object({ organization_id: z.string().meta({ format: 'uuid' }), freezes: z.array(freezeEntry) })
  .meta({ id: 'FrozenOrganization' })

/** POST /operator/organizations/{id}/credits. */
export function postGrant(dependencies: OperatorDependencies): Prepare<SessionPrincipal> {
  const { clock, random } = dependencies
  return (call) => {
    const checked = validate(creditGrant, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { amount_cents: amountCents, promotional, note = null } = checked.value
    const grant = async (tx: Transaction, id: string): Promise<z.infer<typeof grantedCredit>> => {
      const atMs = clock.now()
      const source = `grant:${uuidV7(atMs, random)}`
      await grantCredit(tx, random, {
        organizationId: id,
        amountMicrocents: BigInt(amountCents) * MICROCENTS_PER_CENT,
        source,
        note,
        isPayment: !promotional,
        atMs,
      })
      const after = { amount_cents: amountCents, promotional, source }
      await record(tx, dependencies, call, id, 'credit.granted', null, after)
      return { organization_id: id, amount_cents: amountCents, source }
    }
    return ok(changeOrganization(dependencies, call, 201, grant))
  }
}

/** POST /operator/organizations/{id}/freezes. */
export function postFreeze(dependencies: OperatorDependencies): Prepare<SessionPrincipal> {
  const { clock } = dependencies
  return (call) => {
    const checked = validate(freezeRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { reason, note = null } = checked.value
    const freeze = async (tx: Transaction, id: string) => {
      const freezes = await changeFreezes(
        tx,
        id,
        () => freezeOrganization(tx, id, { reason, cause: '', note, frozenAtMs: clock.now() }),
        ({ before, after }) => record(tx, dependencies, call, id, 'organization.frozen', before, after),
      )
      return frozenBody(id, freezes)
    }
    return ok(changeOrganization(dependencies, call, 201, freeze))
  }
}

const NOT_FROZEN = refusal('not_found', 'This organization is not frozen for this reason.')

/** DELETE /operator/organizations/{id}/freezes/{reason}. */
export function deleteFreeze(dependencies: OperatorDependencies): Prepare<SessionPrincipal> {
  return (call) => {
    const [, name] = call.parameters
    const reason = FREEZE_REASONS.find((each) => each === name)
    const unfreeze = async (tx: Transaction, id: string) => {
      const freezes = await changeFreezes(
        tx,
        id,
        async () => {
          if (reason === undefined || (await unfreezeOrganization(tx, id, reason)) === 0) throw new Refused(NOT_FROZEN)
        },
        ({ before, after }) => record(tx, dependencies, call, id, 'organization.unfrozen', before, after),
      )
      return frozenBody(id, freezes)
    }
    return ok(changeOrganization(dependencies, call, 200, unfreeze))
  }
}

/** Changes the organization that the path names in one transaction with the answer that is kept, and answers with what `change` returns. */
function changeOrganization(
  { database }: OperatorDependencies,
  { parameters: [asked = ''] }: RouteRequest<SessionPrincipal>,
  status: number,
  change: (tx: Transaction, id: string) => Promise<object>,
): Work {
  return async (attempt) => {
    const changed = await inTransaction(
      database,
      null,
      async (tx) => change(tx, (await findOperatedOrganization(tx, asked)).id),
      async (body) => (attempt === null ? [] : attempt.keep(keptJson(body, status))),
    )
    return changed.ok ? jsonAnswer(changed.value, status) : changed.refusal
  }
}

function frozenBody(id: string, freezes: readonly Freeze[]): z.infer<typeof frozenOrganization> {
  return { organization_id: id, freezes: freezes.map(freezeToWire) }
}

/** Writes a change into the audit log of the organization. */
function record(
  tx: Transaction,
  dependencies: OperatorDependencies,
  call: RouteRequest<SessionPrincipal>,
  organizationId: string,
  action: string,
  before: AuditedFields | null,
  after: AuditedFields,
): Promise<void> {
  const { clock, random } = dependencies
  const actor = operatorOf(dependencies, call)
  return recordAuditEntry(tx, random, clock.now(), {
    organizationId,
    actor,
    action,
    subjectId: organizationId,
    before,
    after,
  })
}
