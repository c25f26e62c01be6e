/** The routes of balances, subscriptions, usage and limits. Part of `routes.ts`. */

import { noInstances } from './billing/balance.ts'
import { balance, showBalance } from './billing/http.ts'
import { putSpendingLimit, showSpendingLimit, spendingLimit, spendingLimitRequest } from './billing/limits/http.ts'
import { showSubscription, subscription } from './billing/subscription/http.ts'
import type { Catalog } from './catalog/model.ts'
import type { Route } from './edge/route.ts'
import type { Queryable } from './io/postgres/database.ts'
import type { Log } from './kernel/log.ts'
import type { Clock } from './kernel/time.ts'
import { showUsage, USAGE_PARAMETERS, usagePage, usageQuery } from './usage/http.ts'

export interface BillingRouteDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly catalog: () => Catalog
  readonly log: Log
}

/** Beneath /v1. */
export function billingRoutes({ database, clock, catalog, log }: BillingRouteDependencies): Route[] {
  const report = (error: unknown) => log.warn({ err: error }, "a plan's meter could not be read")
  return [
    {
      method: 'GET',
      path: '/billing/balance',
      needs: { permission: 'billing:read' },
      handle: showBalance(database, noInstances),
      describe: {
        operationId: 'getBalance',
        summary: 'Read the credit balance',
        responses: { 200: { description: 'The balance.', content: { 'application/json': balance } } },
      },
    },
    {
      method: 'GET',
      path: '/billing/subscription',
      needs: { permission: 'billing:read' },
      handle: showSubscription({ database, clock, plans: () => catalog().plans, report }),
      describe: {
        operationId: 'getSubscription',
        summary: 'Read the subscription, its quota and what is used of it',
        description: 'Who never subscribed is shown the plan that there is, with the quota that it would give.',
        responses: { 200: { description: 'The subscription.', content: { 'application/json': subscription } } },
      },
    },
    {
      method: 'GET',
      path: '/usage',
      needs: { permission: 'billing:read', query: USAGE_PARAMETERS },
      handle: showUsage({ database, clock }),
      describe: {
        operationId: 'listUsage',
        summary: 'What was charged, in buckets of time',
        description:
          'Buckets are UTC, weeks begin on Monday, empty ones are left out. A call belongs to the instant at which it was ' +
          'admitted.',
        requestParams: { query: usageQuery },
        responses: { 200: { description: 'A page of buckets.', content: { 'application/json': usagePage } } },
      },
    },
    {
      method: 'GET',
      path: '/billing/spending-limit',
      needs: { permission: 'billing:read' },
      handle: showSpendingLimit(database, clock),
      describe: {
        operationId: 'getSpendingLimit',
        summary: 'Read the spending limit and what is spent',
        description: '404 when no limit is configured.',
        responses: { 200: { description: 'The limit.', content: { 'application/json': spendingLimit } } },
        refusals: [404],
      },
    },
    {
      method: 'PUT',
      path: '/billing/spending-limit',
      needs: { permission: 'billing:write', admin: true, body: 'json' },
      handle: putSpendingLimit(database, clock),
      describe: {
        operationId: 'setSpendingLimit',
        summary: 'Set the spending limit',
        description: "Needs an organization admin's key. Days and months are those of UTC.",
        requestBody: spendingLimitRequest,
        responses: { 200: { description: 'The limit as it is now.', content: { 'application/json': spendingLimit } } },
      },
    },
  ]
}
