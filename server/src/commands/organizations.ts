import { toTimestamp } from '../kernel/time.ts'
import { openAccount } from '../money/store.ts'
import { createOrganization } from '../organizations/create.ts'
import { listOrganizations } from '../organizations/find.ts'
import type { Organization } from '../organizations/organization.ts'
import type { Command } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { table } from './table.ts'

/** `tollgate orgs create NAME` */
export const createOrganizationCommand: Command = {
  words: ['orgs', 'create'],
  summary: 'Make an organization, with an empty account',
  argument: { name: 'NAME', summary: 'what it is called in other commands' },
  options: [
    { name: 'new', value: null, summary: 'spending is capped at $20 in 60 minutes until it is 7 days old or has paid' },
  ],
  examples: ['tollgate orgs create acme', 'tollgate orgs create trial --new'],
  run: (invocation, surroundings) =>
    withDatabase(invocation, surroundings, async (database) => {
      const { clock, randomBytes } = surroundings
      const organization = orThrow(
        await createOrganization(
          { database, clock, randomBytes, openAccount },
          { name: invocation.argument, standing: invocation.flag('new') ? 'new' : 'established' },
        ),
      )
      return {
        json: toJson(organization),
        text: `Made the organization "${organization.name}" (${organization.id}).\n`,
      }
    }),
}

/** `tollgate orgs list` */
export const listOrganizationsCommand: Command = {
  words: ['orgs', 'list'],
  summary: 'List the organizations, oldest first',
  options: [],
  examples: ['tollgate orgs list'],
  run: (invocation, surroundings) =>
    withDatabase(invocation, surroundings, async (database) => {
      const organizations = await listOrganizations(database)
      return {
        json: organizations.map(toJson),
        text: table(
          ['NAME', 'ID', 'STANDING', 'MADE'],
          organizations.map(({ name, id, standing, createdAtMs }) => [name, id, standing, toTimestamp(createdAtMs)]),
          'There are no organizations yet: make one with "tollgate orgs create NAME".',
        ),
      }
    }),
}

function toJson(organization: Organization) {
  const { id, name, standing, createdAtMs } = organization
  return { id, name, standing, created_at: toTimestamp(createdAtMs) }
}
