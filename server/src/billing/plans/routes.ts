import type { Catalog } from '../../catalog/model.ts'
import { apiKeyOrSession } from '../../http/access.ts'
import type { Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import type { SubscriptionDependencies } from './getSubscription.ts'
import { showSubscription, subscription } from './http.ts'

interface SubscriptionRouteDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly catalog: () => Catalog
  readonly log: Log
  readonly readPrice: SubscriptionDependencies['readPrice']
}

export function subscriptionRoutes(dependencies: SubscriptionRouteDependencies): Route[] {
  const { database, clock, catalog, log, readPrice } = dependencies
  const report = (error: unknown) => log.warn({ err: error }, "a plan's meter could not be read")
  return [
    {
      method: 'GET',
      path: '/billing/subscription',
      access: apiKeyOrSession('billing:read', 'member'),
      handle: showSubscription({ database, clock, plans: () => catalog().plans, readPrice, report }),
      describe: {
        operationId: 'getSubscription',
        summary: 'Read the subscription, its quota and its usage',
        description:
          'An organization that never subscribed gets the plan that a checkout without `plan_key` sells, with its quota.',
        responses: { 200: { description: 'The subscription.', content: { 'application/json': subscription } } },
      },
    },
  ]
}
