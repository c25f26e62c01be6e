import { z } from 'zod'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import { refuseNonAdmin } from '../../http/middleware/permission.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession, PublicPrincipal } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { Noter } from '../../identity/audit/note.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { readCursor, writeCursor } from '../../lib/cursor.ts'
import { refusal } from '../../lib/errors.ts'
import { html, htmlPage } from '../../lib/html.ts'
import { isUuid, uuidV7 } from '../../lib/ids.ts'
import { LIMIT_DEFAULT } from '../../lib/listLimit.ts'
import { BAD_CURSOR, LIST_SHAPE } from '../../lib/listPage.ts'
import { ok, refused } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { Payment, PaymentState } from '../provider/payment.ts'
import type { TopUpCaller } from './hourly.ts'
import { donePage, type Links, returnUrl } from './links.ts'
import { findPayment, isCredited, listPayments } from './list.ts'
import { openTopUp, type TopUpDependencies } from './topUp.ts'

/** Bounds of one top-up, in US cents. */
export interface TopUpBounds {
  readonly topUpMinCents: number
  readonly topUpMaxCents: number
}

export function topUpRequestOf({ topUpMinCents, topUpMaxCents }: TopUpBounds) {
  return z
    .strictObject({
      amount_cents: z.int().min(topUpMinCents).max(topUpMaxCents).meta({ description: 'US cents, before tax.' }),
      save_payment_method: z.boolean().optional().meta({
        description:
          "Whether to save the payment method for auto-pay, in place of a saved one; the page of the checkout says so. True needs an organization admin's key. Default: false.",
      }),
      success_url: returnUrl.meta({ description: 'Where the person is sent who has paid. Default: a page of ours.' }),
      cancel_url: returnUrl.meta({ description: 'Where a person is sent who does not pay. Default: a page of ours.' }),
    })
    .meta({ id: 'TopUpRequest' })
}

export const payment = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    kind: z.enum(['top_up', 'auto_pay']).meta({ description: '`auto_pay`: paid by the saved payment method.' }),
    amount_cents: z.int().meta({ description: 'US cents, before tax.' }),
    state: z.enum(['open', 'processing', 'paid', 'failed', 'expired']).meta({
      description:
        '`open`: waits for the person who pays. `processing`: the payment provider waits for the money, or has not said yet what came of a payment by auto-pay. `paid`: the credit is in the balance.',
    }),
    reason: z.string().nullable().meta({ description: 'Why it failed or expired.' }),
    checkout_url: z
      .string()
      .nullable()
      .meta({ description: 'Where a person pays while the payment is `open`; else null.' }),
    receipt_url: z.string().nullable(),
    reversed_cents: z.int().meta({ description: 'US cents of its credit that refunds and disputes took back.' }),
    created_at: z.iso.datetime(),
    paid_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Payment' })

export const paymentPage = z
  .object({ data: z.array(payment), next_cursor: z.string().nullable() })
  .meta({ id: 'PaymentPage' })

export const paymentsQuery = z.object(LIST_SHAPE)

const NO_PAYMENT = refusal('not_found', 'There is no such payment; GET /manage/v1/payments lists them.')

/** POST /top-ups, of the management interface. `noter` writes changes into the audit log. */
export function postTopUp(
  dependencies: TopUpDependencies & { readonly noter: Noter },
  bounds: TopUpBounds,
  links: Links,
): Prepare<KeyOrSession> {
  const request = topUpRequestOf(bounds)
  return (call) => {
    const checked = validate(request, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { amount_cents: amountCents, save_payment_method: savesMethod = false } = checked.value
    const { success_url: successUrl, cancel_url: cancelUrl } = checked.value
    // Auto-pay, which only admins may change, pays by the payment method that was kept last.
    const notAdmin = savesMethod ? refuseNonAdmin(call.principal) : null
    if (notAdmin !== null) return refused(notAdmin)
    return ok(async (attempt) => {
      const note = dependencies.noter(call)
      const after = { amount_cents: amountCents, save_payment_method: savesMethod }
      const id = uuidV7(dependencies.clock.now(), dependencies.random)
      const opened = await openTopUp(dependencies, {
        id,
        organizationId: call.principal.organizationId,
        amountCents,
        savesMethod,
        caller: topUpCallerOf(call.principal),
        successUrl: successUrl ?? donePage(links, id),
        cancelUrl: cancelUrl ?? links.page('/cancelled'),
        keep: async (made) => [
          note({ action: 'top_up.opened', subjectId: made.id, before: null, after }),
          ...((await attempt?.keep(keptJson(toWire(made), 201))) ?? []),
        ],
      })
      return jsonAnswer(toWire(opened), 201)
    })
  }
}

/** Returns the caller of a top-up. */
export function topUpCallerOf(principal: KeyOrSession): TopUpCaller {
  return { id: principal.id, isAdmin: refuseNonAdmin(principal) === null }
}

/** GET /payments, of the management interface. */
export function showPayments(database: Queryable): Handle<KeyOrSession> {
  return async (call) => {
    const query = validate(paymentsQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const { cursor, limit = LIMIT_DEFAULT } = query.value
    const before = cursor === undefined ? null : placeOf(cursor)
    if (cursor !== undefined && before === null) return BAD_CURSOR
    const { payments, next } = await listPayments(database, call.principal.organizationId, before, limit)
    const body: z.infer<typeof paymentPage> = {
      data: payments.map(toWire),
      next_cursor: next === null ? null : writeCursor(['payments', next]),
    }
    return jsonAnswer(body)
  }
}

/** GET /payments/{id}, of the management interface. */
export function showPayment(database: Queryable): Handle<KeyOrSession> {
  return async ({ parameters: [id = ''], principal }) => {
    const found = await findPayment(database, principal.organizationId, id)
    return found === null ? NO_PAYMENT : jsonAnswer(toWire(found))
  }
}

/** A page for a person who comes back from the payment provider. */
export function showReturnPage(kind: keyof typeof RETURN_PAGES): Handle<PublicPrincipal> {
  const page = RETURN_PAGES[kind]
  return () => returnPage(page)
}

/** The page for a person who has paid. It says of a top-up that it is credited, where it is; whoever knows its id may know that. */
export function showDonePage(database: Queryable): Handle<PublicPrincipal> {
  return async ({ query }) => {
    const id = query.get('payment') ?? ''
    // A database that can't be asked keeps nobody from the page.
    const isInBalance = await isCredited(database, id).catch(() => false)
    return returnPage(isInBalance ? RETURN_PAGES.credited : RETURN_PAGES.done)
  }
}

function returnPage([title, says]: readonly [title: string, says: string]): Response {
  return htmlPage(title, html`<p>${says} You can close this page.</p>`)
}

const RETURN_PAGES = {
  done: ['Thank you', 'The payment is on its way.'],
  credited: ['Thank you', 'The payment is made: its credit is in the balance.'],
  cancelled: ['Nothing was paid', 'You have left the payment.'],
  returned: ['Done', 'Changes to the subscription take effect in a moment.'],
} as const

function placeOf(cursor: string): string | null {
  const fields = readCursor(cursor, 2)
  if (fields === null || fields[0] !== 'payments') return null
  const id = fields[1]
  return typeof id === 'string' && isUuid(id) ? id : null
}

function toWire(made: Payment): z.infer<typeof payment> {
  const state = stateOnWire(made)
  return {
    id: made.id,
    kind: made.kind,
    amount_cents: made.amountCents,
    state,
    reason: made.reason,
    checkout_url: state === 'open' && !made.isReplaced ? made.checkoutUrl : null,
    receipt_url: made.receiptUrl,
    reversed_cents: made.reversedCents,
    created_at: toTimestamp(made.createdAtMs),
    paid_at: made.paidAtMs === null ? null : toTimestamp(made.paidAtMs),
  }
}

/** A payment that the payment provider is being asked for waits for a person, except that nobody is present at one by auto-pay. */
function stateOnWire({ kind, state }: Payment): Exclude<PaymentState, 'opening'> {
  if (state !== 'opening') return state
  return kind === 'auto_pay' ? 'processing' : 'open'
}
