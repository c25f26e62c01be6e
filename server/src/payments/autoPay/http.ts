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
import { ok } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { ProviderAsks } from '../asks/asks.ts'
import { ATTEMPTS_A_DAY, ATTEMPTS_A_DAY_MOST } from './autoPay.ts'
import { readAutoPay } from './read.ts'
import { type AutoPayTerms, type JoinAutoPay, type SetAutoPayDependencies, setAutoPay } from './set.ts'

/** Bounds of one payment, in US cents: those of a top-up. */
export interface AutoPayBounds {
  readonly topUpMinCents: number
  readonly topUpMaxCents: number
}

export interface AutoPayHttpDependencies extends SetAutoPayDependencies {
  /** Writes changes into the audit log. */
  readonly noter: Noter
  readonly asks: ProviderAsks
}

const THRESHOLD_CENTS_MOST = 99_999_999

export function autoPayRequestOf({ topUpMinCents, topUpMaxCents }: AutoPayBounds) {
  return z
    .strictObject({
      enabled: z.boolean(),
      threshold_cents: z
        .int()
        .min(0)
        .max(THRESHOLD_CENTS_MOST)
        .optional()
        .meta({ description: 'US cents: a payment is made when the balance is below. Omitted: unchanged.' }),
      amount_cents: z
        .int()
        .min(topUpMinCents)
        .max(topUpMaxCents)
        .optional()
        .meta({ description: 'US cents, before tax: exactly so much is paid each time. Omitted: unchanged.' }),
      attempts_per_day: z
        .int()
        .min(1)
        .max(ATTEMPTS_A_DAY_MOST)
        .optional()
        .meta({
          description: `Payments that are tried in a UTC day at most; a success counts. Omitted: unchanged, ${ATTEMPTS_A_DAY} when first set.`,
        }),
    })
    .meta({ id: 'AutoPayRequest' })
}

export const autoPay = z
  .object({
    enabled: z.boolean(),
    threshold_cents: z.int().nullable().meta({ description: 'Null: never set.' }),
    amount_cents: z.int().nullable().meta({ description: 'Null: never set.' }),
    attempts_per_day: z.int(),
    last_failure: z
      .object({ at: z.iso.datetime(), reason: z.string() })
      .nullable()
      .meta({ description: 'The last failure; null after a success, and once auto-pay begins anew.' }),
    next_attempt_at: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'When a payment is tried next; null: none is due, or one is under way.' }),
  })
  .meta({ id: 'AutoPay' })

/** GET /auto-pay, of the management interface. */
export function showAutoPay(database: Queryable): Handle<KeyOrSession> {
  return async ({ principal: { organizationId } }) => jsonAnswer(await shown(database, organizationId))
}

/** PUT /auto-pay, of the management interface. */
export function putAutoPay(dependencies: AutoPayHttpDependencies, bounds: AutoPayBounds): Prepare<KeyOrSession> {
  const request = autoPayRequestOf(bounds)
  return (call) => {
    const { organizationId } = call.principal
    const checked = validate(request, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { enabled, threshold_cents, amount_cents, attempts_per_day } = checked.value
    const wanted = {
      isEnabled: enabled,
      thresholdCents: threshold_cents,
      amountCents: amount_cents,
      attemptsADay: attempts_per_day,
    }
    return ok(async () => {
      const note = noting(counting(organizationId, dependencies.clock.now()), dependencies.noter(call))
      const set = async () => {
        await setAutoPay(dependencies, organizationId, wanted, note)
        return jsonAnswer(await shown(dependencies.database, organizationId))
      }
      // The provider is asked for the saved payment method. To switch off, nobody is asked.
      return enabled ? dependencies.asks.take({ organizationId, isAdmin: true }, set) : set()
    })
  }
}

/** Counts a change of auto-pay, unless it switches it off, and writes it into the audit log; nothing where none of its fields has changed. */
function noting(count: Participant, note: NoteChange): JoinAutoPay {
  return (before, after) => {
    const changed = fieldsThatDiffer(before && auditedFieldsOf(before), auditedFieldsOf(after))
    if (changed === null) return []
    const noted = note({ action: 'auto_pay.changed', subjectId: null, ...changed })
    return before?.isEnabled && !after.isEnabled ? [noted] : [count, noted]
  }
}

function auditedFieldsOf({ isEnabled, thresholdCents, amountCents, attemptsADay }: AutoPayTerms): AuditedFields {
  return {
    enabled: isEnabled,
    threshold_cents: thresholdCents,
    amount_cents: amountCents,
    attempts_per_day: attemptsADay,
  }
}

async function shown(database: Queryable, organizationId: string): Promise<z.infer<typeof autoPay>> {
  const { agreement, nextAttemptMs } = await readAutoPay(database, organizationId)
  const failure = agreement?.failure ?? null
  return {
    enabled: agreement?.isEnabled ?? false,
    threshold_cents: agreement?.thresholdCents ?? null,
    amount_cents: agreement?.amountCents ?? null,
    attempts_per_day: agreement?.attemptsADay ?? ATTEMPTS_A_DAY,
    last_failure: failure === null ? null : { at: toTimestamp(failure.atMs), reason: failure.reason },
    next_attempt_at: nextAttemptMs === null ? null : toTimestamp(nextAttemptMs),
  }
}
