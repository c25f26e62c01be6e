import { apiKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { noticePage, noticesQuery, showNotices } from './http.ts'

/** Beneath /manage/v1. */
export function noticeRoutes(dependencies: { readonly database: Queryable }): Route[] {
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/notices',
      access: apiKeyOrSession('billing:read', 'member'),
      query: ['limit', 'cursor'],
      handle: showNotices(dependencies),
      describe: {
        operationId: 'listNotices',
        summary: 'List notices of limits and balances, the newest first',
        description: 'They are kept for 100 days.',
        requestParams: { query: noticesQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': noticePage } } },
      },
    },
  ]
}
