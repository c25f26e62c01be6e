import { apiKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import type { Noter } from '../../identity/audit/note.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { limits, putSpendingLimit, showLimits, showSpendingLimit, spendingLimit, spendingLimitRequest } from './http.ts'
import type { LimitDependencies } from './set.ts'

interface SpendingLimitRouteDependencies extends Required<LimitDependencies> {
  readonly reads: Queryable
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

export function spendingLimitRoutes({ database, reads, clock, money, noter }: SpendingLimitRouteDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/billing/spending-limit',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showSpendingLimit(reads, clock),
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
      access: apiKeyOrSession('billing:write', 'admin'),
      body: 'json',
      prepare: putSpendingLimit({ database, clock, money }, noter),
      describe: {
        operationId: 'setSpendingLimit',
        summary: 'Set the spending limit',
        description: "Needs an organization admin's key. Days and months are those of UTC.",
        requestBody: spendingLimitRequest,
        responses: { 200: { description: 'The limit as it is now.', content: { 'application/json': spendingLimit } } },
      },
    },
    {
      base: MANAGE,
      method: 'GET',
      path: '/limits',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showLimits(reads, clock),
      describe: {
        operationId: 'getLimits',
        summary: 'Read the limits of spending and what is spent of them',
        description: 'PUT /v1/billing/spending-limit sets the spending limit. Days and months are those of UTC.',
        responses: { 200: { description: 'The limits.', content: { 'application/json': limits } } },
      },
    },
  ]
}
