import { type DeletedOrganization, deleteOrganization } from '../app/deletion/deleteOrganization.ts'
import { SHELL } from '../identity/audit/shell.ts'
import { findOrganizationByName } from '../identity/organizations/find.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import { configOf, orThrow, withDatabase } from './environment.ts'

/** `tollgate orgs delete NAME --confirm NAME` */
export const deleteOrganizationCommand: Command = {
  words: ['orgs', 'delete'],
  summary: 'Delete an organization for good: its keys, members, jobs and payments end; the ledger stays',
  argument: { name: 'NAME', summary: 'the organization' },
  options: [
    { name: 'confirm', value: 'NAME', summary: 'its name once more, as "orgs show" prints it', required: true },
    CONFIG_OPTION,
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate orgs delete acme --confirm acme'],
  run: async (invocation, context) => {
    const { payments, lowBalanceMicrocents } = (await configOf(invocation, context)).settings.fixed
    return await withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes: random } = context
      const { id } = orThrow(await findOrganizationByName(database, invocation.argument))
      const deleted = await deleteOrganization(
        {
          ...{ database, clock, random, lowBalanceMicrocents },
          paymentProvider: payments?.provider.name ?? null,
          // A server that runs sees the jobs within a second.
          wakeJobs: () => {},
        },
        {
          organizationId: id,
          typedName: invocation.required('confirm'),
          actor: SHELL,
          ownerId: null,
        },
      )
      return { json: toJson(orThrow(deleted)), text: toText(orThrow(deleted)) }
    })
  },
}

function toJson({ organizationId, ended }: DeletedOrganization) {
  return { id: organizationId, deleted: true, ended }
}

function toText({ organizationId, ended }: DeletedOrganization): string {
  const { members, keys, videos, instances, webhook_endpoints: endpoints, subscriptions } = ended
  const counts = `${keys} API keys, ${members} members, ${videos} videos, ${instances} instances, ${endpoints} webhook endpoints`
  const left =
    subscriptions === 0
      ? 'The rest is erased while a server runs.'
      : `Its subscriptions (${subscriptions}) are cancelled at the payment provider, and the rest is erased, while a server runs.`
  return `Deleted the organization ${organizationId}, with ${counts}. ${left} "tollgate orgs show ${organizationId}" still shows its balance.\n`
}
