import { z } from 'zod'
import { planToWire, subscriptionPlan } from '../../catalog/planWire.ts'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { Noter } from '../../identity/audit/note.ts'
import { refusal } from '../../lib/errors.ts'
import { ok } from '../../lib/result.ts'
import { findCustomer, notePortal } from '../topUps/customer.ts'
import { type Links, returnUrl } from '../topUps/links.ts'
import { type OpenedPlanCheckout, openSubscriptionCheckout, type PlanCheckoutDependencies } from './checkout.ts'

export const subscriptionCheckoutRequest = z
  .strictObject({
    success_url: returnUrl.meta({
      description: 'Where the person is sent who has subscribed. Default: a page of ours.',
    }),
    cancel_url: returnUrl.meta({ description: 'Where a person is sent who does not. Default: a page of ours.' }),
    plan_key: z.string().optional().meta({ description: 'The plan. Default: the first on offer.' }),
  })
  .meta({ id: 'SubscriptionCheckoutRequest' })

export const subscriptionCheckoutSession = z
  .object({ checkout_url: z.string(), session_id: z.string(), plan: subscriptionPlan })
  .meta({ id: 'SubscriptionCheckoutSession' })

export const subscriptionPortalRequest = z
  .strictObject({
    return_url: returnUrl.meta({ description: 'Where the person is sent afterwards. Default: a page of ours.' }),
  })
  .meta({ id: 'SubscriptionPortalRequest' })

export const subscriptionPortalSession = z.object({ portal_url: z.string() }).meta({ id: 'SubscriptionPortalSession' })

const NO_ACCOUNT = refusal(
  'not_found',
  'This organization has no billing account yet: it gets one with its first checkout or top-up.',
)

export interface SubscriptionHttpDependencies extends PlanCheckoutDependencies {
  readonly links: Links
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

/** POST /billing/subscription/checkout. */
export function postSubscriptionCheckout(dependencies: SubscriptionHttpDependencies): Prepare<KeyOrSession> {
  const { links } = dependencies
  return (call) => {
    const checked = validate(
      subscriptionCheckoutRequest,
      call.body,
      'validation_failed',
      undefined,
      'validation_failed',
    )
    if (!checked.ok) return checked
    const { success_url: successUrl, cancel_url: cancelUrl, plan_key: planKey } = checked.value
    return ok(async (attempt) => {
      const note = dependencies.noter(call)
      const made = await openSubscriptionCheckout(dependencies, {
        organizationId: call.principal.organizationId,
        planKey: planKey ?? null,
        successUrl: successUrl ?? links.page('/done'),
        cancelUrl: cancelUrl ?? links.page('/cancelled'),
        keep: async (opened) => [
          note({
            action: 'subscription_checkout.opened',
            subjectId: opened.id,
            before: null,
            after: { plan_key: opened.plan.key },
          }),
          ...((await attempt?.keep(keptJson(sessionToWire(opened), 200))) ?? []),
        ],
      })
      return jsonAnswer(sessionToWire(made))
    })
  }
}

/** POST /billing/subscription/portal. A frozen organization gets it too, so that it can cancel a subscription (B11). */
export function postSubscriptionPortal(dependencies: SubscriptionHttpDependencies): Prepare<KeyOrSession> {
  const { database, provider, links } = dependencies
  return (call) => {
    const checked = validate(subscriptionPortalRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    return ok(async () => {
      const customer = await findCustomer(database, call.principal.organizationId, provider.name)
      if (customer === null) return NO_ACCOUNT
      await notePortal(dependencies, call.principal.organizationId, provider.name)
      const back = checked.value.return_url ?? links.page('/returned')
      const body: z.infer<typeof subscriptionPortalSession> = { portal_url: await provider.openPortal(customer, back) }
      // Nobody has the address of a portal that is not in the log.
      const change = { action: 'billing_portal.opened', subjectId: null, before: null, after: null }
      await database.transaction(dependencies.noter(call)(change), call.principal.organizationId)
      return jsonAnswer(body)
    })
  }
}

function sessionToWire({ checkout, plan, price }: OpenedPlanCheckout): z.infer<typeof subscriptionCheckoutSession> {
  return { checkout_url: checkout.url, session_id: checkout.id, plan: planToWire(plan, price) }
}
