import { inTransaction } from '../identity/audit/inTransaction.ts'
import { SHELL } from '../identity/audit/shell.ts'
import { parseExpiry } from '../identity/keys/expiry.ts'
import { keyStateAt, type ListedKey } from '../identity/keys/key.ts'
import { listKeyPage } from '../identity/keys/list.ts'
import { createKeyWithin, revokeKeyByShell } from '../identity/keys/manage.ts'
import { parseKeyName } from '../identity/keys/name.ts'
import { parseScopes } from '../identity/keys/scopes.ts'
import { findOrganizationByName, namesOfOrganizations } from '../identity/organizations/find.ts'
import { shortInstant } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { PAGE_OPTIONS, showPages } from './pages.ts'

/** `tollgate keys create --org NAME --scope …` */
export const createKeyCommand: Command = {
  words: ['keys', 'create'],
  summary: 'Make an API key and show it, only once',
  options: [
    { name: 'org', value: 'NAME', summary: 'the organization whose balance it spends', required: true },
    {
      name: 'scope',
      value: 'SCOPE',
      summary: 'full_access, read_only, or a list such as serverless:write,billing:read',
      required: true,
    },
    { name: 'admin', value: null, summary: "make it an organization admin's key" },
    { name: 'name', value: 'NAME', summary: 'your word for it in lists, such as the program that uses it' },
    { name: 'expires', value: 'WHEN', summary: 'a time from now (30d, 12h) or an ISO date; never when left out' },
    DATA_DIR_OPTION,
  ],
  examples: [
    'tollgate keys create --org acme --scope serverless:write,billing:read --expires 30d',
    'tollgate keys create --org acme --name "web shop" --scope full_access --admin --json',
  ],
  run: async (invocation, context) => {
    const { randomBytes: random } = context
    const scopes = parseScopes(invocation.required('scope'))
    if (!scopes.ok) throw new UsageFailure(scopes.refusal.message)
    const typedName = invocation.text('name')
    const name = typedName === undefined ? undefined : parseKeyName(typedName)
    if (name?.ok === false) throw new UsageFailure(`--name: ${name.refusal.message}`)
    const expires = invocation.text('expires')
    return await withDatabase(invocation, context, async (database, clock) => {
      const expiry = expires === undefined ? undefined : parseExpiry(expires, clock.now())
      if (expiry?.ok === false) throw new UsageFailure(expiry.refusal.message)
      const organization = orThrow(await findOrganizationByName(database, invocation.required('org')))
      const maker = { organizationId: organization.id, actor: SHELL, memberId: null, isAdmin: true }
      const wanted = {
        name: name?.value,
        memberId: null,
        scopes: scopes.value,
        admin: invocation.flag('admin'),
        expiresAtMs: expiry?.value ?? null,
      }
      const made = await inTransaction(database, null, (tx) => createKeyWithin(tx, { clock, random }, maker, wanted))
      const { record, plaintext } = orThrow(made)
      const { id, scopes: printed, admin, createdAtMs, expiresAtMs } = record
      const expires_at = timestampOf(expiresAtMs)
      return {
        json: {
          id,
          key: plaintext,
          org: organization.name,
          name: record.name,
          scopes: printed,
          admin,
          created_at: toTimestamp(createdAtMs),
          expires_at,
        },
        text:
          `Made the key ${id} for "${organization.name}": ${printed}${admin ? ', admin' : ''}, ` +
          `${expires_at === null ? 'never expires' : `expires ${expires_at}`}.\n` +
          `Keep it now; it can't be shown again:\n\n${plaintext}\n`,
        undo: {
          run: () =>
            withDatabase(invocation, context, async (again, clockThen) => {
              orThrow(await revokeKeyByShell({ database: again, clock: clockThen, random }, id))
            }),
          done: `the key ${id} was revoked`,
          advice: `nobody has seen the key ${id}: revoke it with "tollgate keys revoke ${id}"`,
        },
      }
    })
  },
}

/** `tollgate keys list [--org NAME]` */
export const listKeysCommand: Command = {
  words: ['keys', 'list'],
  summary: 'List API keys, the newest first, without the keys themselves',
  options: [
    { name: 'org', value: 'NAME', summary: 'only those of this organization' },
    ...PAGE_OPTIONS,
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate keys list --org acme', 'tollgate keys list --all --json'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const name = invocation.text('org')
      const only = name === undefined ? null : orThrow(await findOrganizationByName(database, name))
      const nowMs = clock.now()
      return await showPages(invocation, context, {
        async read(afterId, atMost) {
          const keys = await listKeyPage(database, only?.id ?? null, afterId, atMost)
          const names = await namesOfOrganizations(
            database,
            keys.map(({ organizationId }) => organizationId),
          )
          return keys.map((key) => describe(key, names.get(key.organizationId) ?? key.organizationId, nowMs))
        },
        toJson: (key) => key,
        heading: ['ID', 'ORG', 'NAME', 'STATE', 'SCOPES'],
        cells: (key) => [
          key.id,
          key.org,
          key.name ?? '-',
          key.state === 'active' && key.expires_at !== null ? `to ${shortInstant(key.expires_at)}` : key.state,
          key.admin ? `${key.scopes}, admin` : key.scopes,
        ],
        none: 'There are no keys: make one with "tollgate keys create --org NAME --scope full_access".',
      })
    }),
}

/** `tollgate keys revoke ID` */
export const revokeKeyCommand: Command = {
  words: ['keys', 'revoke'],
  summary: 'Revoke an API key at once, in every process',
  argument: { name: 'ID', summary: 'the key\'s id, as "tollgate keys list" shows it' },
  options: [DATA_DIR_OPTION],
  examples: ['tollgate keys revoke 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const { id, revokedAtMs } = orThrow(
        await revokeKeyByShell({ database, clock, random: context.randomBytes }, invocation.argument),
      )
      return { json: { id, revoked_at: timestampOf(revokedAtMs) }, text: `Revoked the key ${id}.\n` }
    }),
}

function describe(key: ListedKey, org: string, nowMs: number) {
  return {
    id: key.id,
    org,
    name: key.name,
    state: keyStateAt(key, nowMs),
    scopes: key.scopes,
    admin: key.admin,
    created_at: toTimestamp(key.createdAtMs),
    expires_at: timestampOf(key.expiresAtMs),
    revoked_at: timestampOf(key.revokedAtMs),
    last_used_at: timestampOf(key.lastUsedAtMs),
  }
}

function timestampOf(epochMs: number | null): string | null {
  return epochMs === null ? null : toTimestamp(epochMs)
}
