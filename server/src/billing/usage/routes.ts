import { apiKeyOrSession } from '../../http/access.ts'
import type { Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { showUsage, USAGE_PARAMETERS, usagePage, usageQuery } from './http.ts'

export function usageRoutes(dependencies: { readonly database: Queryable; readonly clock: Clock }): Route[] {
  return [
    {
      method: 'GET',
      path: '/usage',
      access: apiKeyOrSession('billing:read', 'member'),
      query: USAGE_PARAMETERS,
      handle: showUsage(dependencies),
      describe: {
        operationId: 'listUsage',
        summary: 'List usage and cost in buckets of time',
        description:
          'Buckets are in UTC, weeks begin on Monday, and empty buckets are left out. A call counts at the ' +
          'instant of its admission, a minute of an instance at its beginning.',
        requestParams: { query: usageQuery },
        responses: { 200: { description: 'A page of buckets.', content: { 'application/json': usagePage } } },
      },
    },
  ]
}
