/** The routes of payments: those of the management interface, and the pages that people are sent to. */

import { z } from 'zod'
import { apiKeyOrSession, publicAccess, signed } from '../http/access.ts'
import { refuseNonAdmin } from '../http/middleware/permission.ts'
import type { Prepare, Work } from '../http/onceForKey.ts'
import type { KeyOrSession, Verify } from '../http/principal.ts'
import { MANAGE, PAYMENTS, type Route } from '../http/route.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { ok } from '../lib/result.ts'
import type { ProviderAsks } from './asks/asks.ts'
import {
  type LocalPageDependencies,
  postLocalCheckout,
  postLocalPortal,
  showLocalCheckout,
  showLocalPortal,
  showLocalReceipt,
} from './local/http.ts'
import type { Hearing } from './reconcile/hearing.ts'
import { postStripeEvent } from './stripe/http.ts'
import { refuseCheckoutFirst } from './subscriptions/checkout.ts'
import {
  postSubscriptionCheckout,
  postSubscriptionPortal,
  type SubscriptionHttpDependencies,
  subscriptionCheckoutRequest,
  subscriptionCheckoutSession,
  subscriptionPortalRequest,
  subscriptionPortalSession,
} from './subscriptions/http.ts'
import { refusePortalFirst } from './topUps/customer.ts'
import {
  payment,
  paymentPage,
  paymentsQuery,
  postTopUp,
  showDonePage,
  showPayment,
  showPayments,
  showReturnPage,
  type TopUpBounds,
  topUpCallerOf,
  topUpRequestOf,
} from './topUps/http.ts'
import type { Links } from './topUps/links.ts'
import { refuseTopUpFirst, type TopUpDependencies } from './topUps/topUp.ts'

interface Asking {
  readonly asks: ProviderAsks
}

export interface PaymentRouteDependencies extends TopUpDependencies, Asking {
  readonly bounds: TopUpBounds
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly links: Links
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

/** Bounds the work of a route that always asks the payment provider. `refuseFirst` checks the route's own limit first. */
function boundAsks(
  asks: ProviderAsks,
  prepare: Prepare<KeyOrSession>,
  refuseFirst: (principal: KeyOrSession) => Promise<void>,
): Prepare<KeyOrSession> {
  return (call) => {
    const prepared = prepare(call)
    if (!prepared.ok) return prepared
    const { principal } = call
    const caller = { organizationId: principal.organizationId, isAdmin: refuseNonAdmin(principal) === null }
    const work: Work = (attempt) =>
      asks.take(
        caller,
        () => prepared.value(attempt),
        () => refuseFirst(principal),
      )
    return ok(work)
  }
}

/** Beneath /manage/v1. */
export function paymentRoutes({ bounds, links, reads, ...dependencies }: PaymentRouteDependencies): Route[] {
  return [
    {
      base: MANAGE,
      method: 'POST',
      path: '/top-ups',
      access: apiKeyOrSession('billing:write', 'member'),
      body: 'json',
      prepare: boundAsks(dependencies.asks, postTopUp(dependencies, bounds, links), (principal) =>
        refuseTopUpFirst(dependencies, principal.organizationId, topUpCallerOf(principal)),
      ),
      describe: {
        operationId: 'createTopUp',
        summary: 'Begin a payment of credit',
        description:
          'A person pays at `checkout_url`. The credit is in the balance once the payment provider says that it is paid. An older top-up that is still open expires. A key or a member may begin 30 within an hour, all admins together 60, and all others together 60.',
        requestBody: topUpRequestOf(bounds),
        responses: { 201: { description: 'The payment, open.', content: { 'application/json': payment } } },
      },
    },
    {
      base: MANAGE,
      method: 'GET',
      path: '/payments',
      access: apiKeyOrSession('billing:read', 'member'),
      query: ['limit', 'cursor'],
      handle: showPayments(reads),
      describe: {
        operationId: 'listPayments',
        summary: 'List payments, the newest first',
        requestParams: { query: paymentsQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': paymentPage } } },
      },
    },
    {
      base: MANAGE,
      method: 'GET',
      path: '/payments/{id}',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showPayment(reads),
      describe: {
        operationId: 'getPayment',
        summary: 'Read a payment',
        requestParams: { path: z.object({ id: z.string().meta({ format: 'uuid' }) }) },
        responses: { 200: { description: 'The payment.', content: { 'application/json': payment } } },
        refusals: [404],
      },
    },
    { ...page('GET', '/done', showDonePage(reads)), query: ['payment'] },
    page('GET', '/cancelled', showReturnPage('cancelled')),
  ]
}

/** Beneath /v1. */
export function subscriptionCheckoutRoutes(dependencies: SubscriptionHttpDependencies & Asking): Route[] {
  const access = apiKeyOrSession('billing:write', 'admin')
  return [
    {
      method: 'POST',
      path: '/billing/subscription/checkout',
      access,
      body: 'json',
      isBodyOptional: true,
      prepare: boundAsks(dependencies.asks, postSubscriptionCheckout(dependencies), ({ organizationId }) =>
        refuseCheckoutFirst(dependencies, organizationId),
      ),
      describe: {
        operationId: 'createSubscriptionCheckout',
        summary: 'Begin a subscription',
        description:
          "Needs an organization admin's key. A person subscribes at `checkout_url`; GET /billing/subscription shows when that is done. An older checkout that is still open expires.",
        requestBody: subscriptionCheckoutRequest,
        responses: {
          200: { description: 'The checkout.', content: { 'application/json': subscriptionCheckoutSession } },
        },
        refusals: [400],
      },
    },
    {
      method: 'POST',
      path: '/billing/subscription/portal',
      access,
      body: 'json',
      isBodyOptional: true,
      prepare: boundAsks(dependencies.asks, postSubscriptionPortal(dependencies), ({ organizationId }) =>
        refusePortalFirst(dependencies, organizationId, dependencies.provider.name),
      ),
      describe: {
        operationId: 'createSubscriptionPortal',
        summary: 'Open the billing portal',
        description:
          "Needs an organization admin's key. A person changes the subscription and its card at `portal_url`. An organization may open 30 within an hour.",
        requestBody: subscriptionPortalRequest,
        responses: { 200: { description: 'The portal.', content: { 'application/json': subscriptionPortalSession } } },
        refusals: [404],
      },
    },
    page('GET', '/returned', showReturnPage('returned')),
  ]
}

/** The pages of the local payment provider, beneath /payments. */
export function localRoutes(dependencies: LocalPageDependencies): Route[] {
  const checkout = '/local/checkouts/{id}'
  const portal = '/local/portals/{id}'
  return [
    page('GET', checkout, showLocalCheckout(dependencies)),
    { ...page('POST', checkout, postLocalCheckout(dependencies)), ...FORM },
    page('GET', '/local/receipts/{id}', showLocalReceipt(dependencies)),
    page('GET', portal, showLocalPortal(dependencies)),
    { ...page('POST', portal, postLocalPortal(dependencies)), ...FORM },
  ]
}

/** Where Stripe calls, beneath /payments. */
export function stripeRoutes(verify: Verify, hear: Hearing): Route[] {
  return [
    {
      base: PAYMENTS,
      method: 'POST',
      path: '/stripe/events',
      access: signed(verify),
      body: 'raw',
      bodyLimitBytes: EVENT_BYTES_MOST,
      handle: postStripeEvent(hear),
    },
  ]
}

/** Stripe's callbacks have a few kilobytes. */
const EVENT_BYTES_MOST = 1024 * 1024

/** A form has a few short fields. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const

type Page = Extract<Route, { readonly access: typeof publicAccess }>

function page(method: 'GET' | 'POST', path: string, handle: Page['handle']): Page {
  return { base: PAYMENTS, method, path, access: publicAccess, handle }
}
