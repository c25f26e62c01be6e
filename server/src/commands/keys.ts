import { toTimestamp } from '../kernel/time.ts'
import { createKey } from '../keys/create.ts'
import { parseExpiry } from '../keys/expiry.ts'
import { type ApiKey, keyStateAt } from '../keys/key.ts'
import { listKeys } from '../keys/list.ts'
import { revokeKey } from '../keys/revoke.ts'
import { parseScopes } from '../keys/scopes.ts'
import { findOrganizationByName, listOrganizations } from '../organizations/find.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { table } from './table.ts'

/** `tollgate keys create --org NAME --scope …` */
export const createKeyCommand: Command = {
  words: ['keys', 'create'],
  summary: 'Make an API key and show it, this once',
  options: [
    { name: 'org', value: 'NAME', summary: 'whose calls it makes and whose balance it spends', required: true },
    {
      name: 'scope',
      value: 'SCOPE',
      summary: 'full_access, read_only, or a list such as serverless:write,billing:read',
      required: true,
    },
    { name: 'admin', value: null, summary: "make it an organization admin's key" },
    { name: 'expires', value: 'WHEN', summary: 'a time from now (30d, 12h) or an ISO date; never when left out' },
    DATA_DIR_OPTION,
  ],
  examples: [
    'tollgate keys create --org acme --scope serverless:write,billing:read --expires 30d',
    'tollgate keys create --org acme --scope full_access --admin --json',
  ],
  run: async (invocation, surroundings) => {
    const { clock, randomBytes } = surroundings
    const scopes = parseScopes(invocation.required('scope'))
    if (!scopes.ok) throw new UsageFailure(scopes.refusal.message)
    const expires = invocation.text('expires')
    const expiry = expires === undefined ? undefined : parseExpiry(expires, clock.now())
    if (expiry?.ok === false) throw new UsageFailure(expiry.refusal.message)
    return await withDatabase(invocation, surroundings, async (database) => {
      const organization = orThrow(await findOrganizationByName(database, invocation.required('org')))
      const { record, plaintext } = await createKey(
        { database, clock, randomBytes },
        {
          organizationId: organization.id,
          scopes: scopes.value,
          admin: invocation.flag('admin'),
          expiresAtMs: expiry?.value ?? null,
        },
      )
      const { id, scopes: printed, admin, createdAtMs, expiresAtMs } = record
      const expires_at = timestampOf(expiresAtMs)
      return {
        json: {
          id,
          key: plaintext,
          org: organization.name,
          scopes: printed,
          admin,
          created_at: toTimestamp(createdAtMs),
          expires_at,
        },
        text:
          `Made the key ${id} for "${organization.name}": ${printed}${admin ? ', admin' : ''}, ` +
          `${expires_at === null ? 'never expires' : `expires ${expires_at}`}.\n` +
          `Keep it now; it can't be shown again:\n\n${plaintext}\n`,
      }
    })
  },
}

/** `tollgate keys list [--org NAME]` */
export const listKeysCommand: Command = {
  words: ['keys', 'list'],
  summary: 'List API keys, oldest first, without the keys themselves',
  options: [{ name: 'org', value: 'NAME', summary: 'only those of this organization' }, DATA_DIR_OPTION],
  examples: ['tollgate keys list --org acme'],
  run: (invocation, surroundings) =>
    withDatabase(invocation, surroundings, async (database) => {
      const name = invocation.text('org')
      const organizations =
        name === undefined ? await listOrganizations(database) : [orThrow(await findOrganizationByName(database, name))]
      const names = new Map(organizations.map((organization) => [organization.id, organization.name]))
      const keys = await listKeys(database, name === undefined ? null : (organizations[0]?.id ?? null))
      const nowMs = surroundings.clock.now()
      // A key of an organization that was made in between the two queries shows the organization's id.
      const described = keys.map((key) => describe(key, names.get(key.organizationId) ?? key.organizationId, nowMs))
      return {
        json: described,
        text: table(
          ['ID', 'ORG', 'STATE', 'SCOPES', 'ADMIN', 'MADE', 'EXPIRES'],
          described.map((key) => [
            key.id,
            key.org,
            key.state,
            key.scopes,
            key.admin ? 'admin' : '-',
            key.created_at,
            key.expires_at ?? 'never',
          ]),
          'There are no keys: make one with "tollgate keys create --org NAME --scope full_access".',
        ),
      }
    }),
}

/** `tollgate keys revoke ID` */
export const revokeKeyCommand: Command = {
  words: ['keys', 'revoke'],
  summary: 'End an API key at once and for good, in every process',
  argument: { name: 'ID', summary: 'the key\'s id, as "tollgate keys list" shows it' },
  options: [DATA_DIR_OPTION],
  examples: ['tollgate keys revoke 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: (invocation, surroundings) =>
    withDatabase(invocation, surroundings, async (database) => {
      const { clock } = surroundings
      const { id, revokedAtMs } = orThrow(await revokeKey({ database, clock }, invocation.argument))
      return { json: { id, revoked_at: timestampOf(revokedAtMs) }, text: `Revoked the key ${id}.\n` }
    }),
}

function describe(key: ApiKey, org: string, nowMs: number) {
  return {
    id: key.id,
    org,
    state: keyStateAt(key, nowMs),
    scopes: key.scopes,
    admin: key.admin,
    created_at: toTimestamp(key.createdAtMs),
    expires_at: timestampOf(key.expiresAtMs),
    revoked_at: timestampOf(key.revokedAtMs),
  }
}

function timestampOf(epochMs: number | null): string | null {
  return epochMs === null ? null : toTimestamp(epochMs)
}
