import { fullKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { auditPage, auditQuery, showChanges } from './http.ts'

/** Beneath /manage/v1. */
export function auditRoutes({ database }: { readonly database: Queryable }): Route[] {
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/audit',
      access: fullKeyOrSession('admin'),
      query: ['limit', 'cursor'],
      handle: showChanges(database),
      describe: {
        operationId: 'listChanges',
        summary: 'List what was changed in the organization, the newest first',
        description:
          "Of people, keys, invitations, limits, auto-pay, ways to pay, webhook endpoints, instances and the organization itself, and what operators did to it. Needs an admin, or an admin's key with the scope `full_access`. Entries are kept for 400 days.",
        requestParams: { query: auditQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': auditPage } } },
      },
    },
  ]
}
