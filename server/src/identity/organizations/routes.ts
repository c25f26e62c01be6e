import { fullKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import {
  type OrganizationHttpDependencies,
  organizationChange,
  organizationEntry,
  patchOrganization,
  showOrganization,
} from './http.ts'

/** Beneath /manage/v1. */
export function organizationRoutes(dependencies: OrganizationHttpDependencies): Route[] {
  const answer = { 200: { description: 'The organization.', content: { 'application/json': organizationEntry } } }
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/organization',
      access: fullKeyOrSession('member'),
      handle: showOrganization(dependencies),
      describe: {
        operationId: 'getOrganization',
        summary: 'Read the organization',
        description: "Needs a session, or an admin's key with the scope `full_access`.",
        responses: answer,
      },
    },
    {
      base: MANAGE,
      method: 'PATCH',
      path: '/organization',
      access: fullKeyOrSession('admin'),
      body: 'json',
      prepare: patchOrganization(dependencies),
      describe: {
        operationId: 'changeOrganization',
        summary: 'Set who is told of reached limits and a low balance',
        description: "Needs an admin, or an admin's key with the scope `full_access`.",
        requestBody: organizationChange,
        responses: answer,
      },
    },
  ]
}
