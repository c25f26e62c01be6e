import { apiKeyOrSession } from '../../../http/access.ts'
import { MANAGE, type Route } from '../../../http/route.ts'
import {
  showUsageGroups,
  USAGE_GROUPS_PARAMETERS,
  type UsageGroupDependencies,
  usageGroupPage,
  usageGroupsQuery,
} from './http.ts'

/** Beneath /manage/v1. */
export function usageGroupRoutes(dependencies: UsageGroupDependencies): Route[] {
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/usage',
      access: apiKeyOrSession('billing:read', 'member'),
      query: USAGE_GROUPS_PARAMETERS,
      handle: showUsageGroups(dependencies),
      describe: {
        operationId: 'listUsageGroups',
        summary: 'Add up usage by model, key, member, tier, modality or time',
        description:
          'Grouped by one or two dimensions. A call counts at the instant of its admission. The totals are the sums of the charges: with the ' +
          'entries of the ledger they make the balance. Times are in UTC, and weeks begin on Monday. A window has at most 400 days, ' +
          'or 31 where it is grouped by hour.',
        requestParams: { query: usageGroupsQuery },
        responses: { 200: { description: 'A page of groups.', content: { 'application/json': usageGroupPage } } },
      },
    },
  ]
}
