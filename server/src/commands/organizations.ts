import { toTimestamp } from '../kernel/time.ts'
import { openAccount } from '../money/store.ts'
import { createOrganization } from '../organizations/create.ts'
import { listOrganizations } from '../organizations/find.ts'
import type { Organization } from '../organizations/organization.ts'
import { setNotifyAddresses } from '../organizations/setNotifyAddresses.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { table } from './table.ts'

/** `tollgate orgs create NAME` */
export const createOrganizationCommand: Command = {
  words: ['orgs', 'create'],
  summary: 'Make an organization, with an empty account',
  argument: { name: 'NAME', summary: 'what it is called in other commands' },
  options: [
    { name: 'new', value: null, summary: 'spending is capped at $20 in 60 minutes until it is 7 days old or has paid' },
    DATA_DIR_OPTION,
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

/** `tollgate orgs update NAME --notify ADDRESS` */
export const updateOrganizationCommand: Command = {
  words: ['orgs', 'update'],
  summary: 'Set who is told when a limit is reached or the balance is low',
  argument: { name: 'NAME', summary: 'the organization' },
  options: [
    {
      name: 'notify',
      value: 'ADDRESS',
      summary: 'a mail address, in place of those set before; may be given several times',
      isRepeatable: true,
    },
    { name: 'no-notify', value: null, summary: 'mail nobody; notices are still logged' },
    DATA_DIR_OPTION,
  ],
  examples: [
    'tollgate orgs update acme --notify billing@example.com --notify ops@example.com',
    'tollgate orgs update acme --no-notify',
  ],
  run: async (invocation, surroundings) => {
    const addresses = invocation.all('notify')
    if (addresses.length > 0 === invocation.flag('no-notify')) {
      throw new UsageFailure('give --notify ADDRESS, once or several times, or --no-notify')
    }
    return await withDatabase(invocation, surroundings, async (database) => {
      const organization = orThrow(await setNotifyAddresses(database, invocation.argument, addresses))
      const { name, notifyAddresses } = organization
      const told = notifyAddresses.length === 0 ? 'go to nobody by mail' : `go to ${notifyAddresses.join(', ')}`
      return { json: toJson(organization), text: `Notices of "${name}" ${told}.\n` }
    })
  },
}

/** `tollgate orgs list` */
export const listOrganizationsCommand: Command = {
  words: ['orgs', 'list'],
  summary: 'List the organizations, oldest first',
  options: [DATA_DIR_OPTION],
  examples: ['tollgate orgs list'],
  run: (invocation, surroundings) =>
    withDatabase(invocation, surroundings, async (database) => {
      const organizations = await listOrganizations(database)
      return {
        json: organizations.map(toJson),
        text: table(
          ['NAME', 'ID', 'STANDING', 'MADE', 'NOTICES TO'],
          organizations.map(({ name, id, standing, createdAtMs, notifyAddresses }) => [
            name,
            id,
            standing,
            toTimestamp(createdAtMs),
            notifyAddresses.join(', '),
          ]),
          'There are no organizations yet: make one with "tollgate orgs create NAME".',
        ),
      }
    }),
}

function toJson(organization: Organization) {
  const { id, name, standing, createdAtMs, notifyAddresses } = organization
  return { id, name, standing, created_at: toTimestamp(createdAtMs), notify: notifyAddresses }
}
