import { z } from 'zod'
import { operatorSession, session } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import {
  type DeletionHttpDependencies,
  deleteOperatedOrganization,
  deleteOwnOrganization,
  operatedDeletion,
  organizationDeletion,
} from './http.ts'

const WHAT =
  "API keys, members, invitations, webhook endpoints, videos, instances and auto-pay end at once, a subscription within minutes. What names people is erased. The ledger, charges and payments stay. A deletion can't be undone, and credit that is left is not paid out."

/** Beneath /manage/v1. */
export function deletionRoutes(dependencies: DeletionHttpDependencies): Route[] {
  const responses = { 204: { description: 'It is deleted.' } }
  return [
    {
      base: MANAGE,
      method: 'DELETE',
      path: '/organization',
      access: session('owner'),
      body: 'json',
      prepare: deleteOwnOrganization(dependencies),
      describe: {
        operationId: 'deleteOrganization',
        summary: 'Delete the organization',
        description: `${WHAT} Needs the session of an owner who signed in within the last ten minutes. API keys can't do it.`,
        requestBody: organizationDeletion,
        responses,
        refusals: [404],
      },
    },
    {
      base: MANAGE,
      method: 'DELETE',
      path: '/operator/organizations/{id}',
      access: operatorSession,
      body: 'json',
      prepare: deleteOperatedOrganization(dependencies),
      describe: {
        operationId: 'deleteOperatedOrganization',
        summary: 'Delete an organization',
        description: `${WHAT} For operators who are signed in: everybody else is answered 404.`,
        requestParams: { path: z.object({ id: z.string().meta({ format: 'uuid' }) }) },
        requestBody: operatedDeletion,
        responses,
        refusals: [404],
      },
    },
  ]
}
