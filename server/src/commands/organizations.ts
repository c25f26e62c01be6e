import { openAccount, readBalances } from '../billing/admission/balance/balance.ts'
import { NEW_ACCOUNT_CAP } from '../billing/admission/gates.ts'
import { changeByShell, SHELL } from '../identity/audit/shell.ts'
import { createOrganization } from '../identity/organizations/create.ts'
import { listOrganizationPage } from '../identity/organizations/find.ts'
import type { Organization } from '../identity/organizations/organization.ts'
import { setNotifyAddresses } from '../identity/organizations/setNotifyAddresses.ts'
import { NEW_ACCOUNT_DAYS } from '../lib/newAccount.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { PAGE_OPTIONS, showPages } from './pages.ts'

/** `tollgate orgs create NAME` */
export const createOrganizationCommand: Command = {
  words: ['orgs', 'create'],
  summary: 'Make an organization, with an empty account',
  argument: { name: 'NAME', summary: 'its name in other commands' },
  options: [
    {
      name: 'new',
      value: null,
      summary: `cap its spending at ${NEW_ACCOUNT_CAP} until it is ${NEW_ACCOUNT_DAYS} days old or has paid`,
    },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate orgs create acme', 'tollgate orgs create trial --new'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes } = context
      const wanted = { name: invocation.argument, standing: invocation.flag('new') ? 'new' : 'established' } as const
      const made = await changeByShell({ database, clock, random: randomBytes }, async (tx, note) => {
        const organization = await createOrganization(tx, { clock, randomBytes, openAccount }, wanted)
        const { id, name, standing } = organization
        const entry = { action: 'organization.created', subjectId: id, before: null, after: { name, standing } }
        await note({ organizationId: id, ...entry })
        return organization
      })
      const organization = orThrow(made)
      return {
        json: toJson(organization),
        text: `Made the organization "${organization.name}" (${organization.id}).\n`,
      }
    }),
}

/** `tollgate orgs update NAME --notify ADDRESS` */
export const updateOrganizationCommand: Command = {
  words: ['orgs', 'update'],
  summary: 'Set the addresses that get notices: reached limits, low balances, auto-pay that failed',
  argument: { name: 'NAME', summary: 'the organization' },
  options: [
    {
      name: 'notify',
      value: 'ADDRESS',
      summary: 'a mail address; replaces all set before; may be given several times',
      isRepeatable: true,
    },
    { name: 'no-notify', value: null, summary: 'mail nobody; notices are still logged' },
    DATA_DIR_OPTION,
  ],
  examples: [
    'tollgate orgs update acme --notify billing@example.com --notify ops@example.com',
    'tollgate orgs update acme --no-notify',
  ],
  run: async (invocation, context) => {
    const addresses = invocation.all('notify')
    if (addresses.length > 0 === invocation.flag('no-notify')) {
      throw new UsageFailure('give --notify ADDRESS, once or several times, or --no-notify')
    }
    return await withDatabase(invocation, context, async (database, clock) => {
      const dependencies = { database, clock, random: context.randomBytes }
      const organization = orThrow(await setNotifyAddresses(dependencies, invocation.argument, addresses, SHELL))
      const { name, notifyAddresses } = organization
      const told = notifyAddresses.length === 0 ? 'are not mailed' : `go to ${notifyAddresses.join(', ')}`
      return { json: toJson(organization), text: `Notices of "${name}" ${told}.\n` }
    })
  },
}

/** `tollgate orgs list` */
export const listOrganizationsCommand: Command = {
  words: ['orgs', 'list'],
  summary: 'List the organizations, the newest first; deleted ones with the balance that is left',
  options: [...PAGE_OPTIONS, DATA_DIR_OPTION],
  examples: ['tollgate orgs list', 'tollgate orgs list --all --json'],
  run: (invocation, context) =>
    withDatabase(invocation, context, (database) =>
      showPages(invocation, context, {
        async read(afterId, atMost) {
          const organizations = await listOrganizationPage(database, afterId, atMost)
          const balances = await readBalances(
            database,
            organizations.map(({ id }) => id),
          )
          return organizations.map((each) => ({ ...each, balanceUsd: printUsd(balances.get(each.id) ?? 0n) }))
        },
        toJson: (each) => ({ ...toJson(each), balance_usd: each.balanceUsd }),
        heading: ['NAME', 'ID', 'STANDING', 'NOTICES TO'],
        cells: (each) => [
          // That of a deleted one is made of its id.
          each.deletedAtMs === null ? each.name : '-',
          each.id,
          each.deletedAtMs === null ? each.standing : `deleted, $${each.balanceUsd}`,
          each.notifyAddresses.join(', ') || '-',
        ],
        none: 'There are no organizations yet: make one with "tollgate orgs create NAME".',
      }),
    ),
}

function toJson(organization: Organization) {
  const { id, name, standing, createdAtMs, notifyAddresses, deletedAtMs } = organization
  const deletedAt = deletedAtMs === null ? null : toTimestamp(deletedAtMs)
  return {
    id,
    name,
    standing,
    created_at: toTimestamp(createdAtMs),
    deleted_at: deletedAt,
    notify: notifyAddresses,
  }
}
