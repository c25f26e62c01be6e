import { resolve } from 'node:path'
import { z } from 'zod'
import { Secret } from '../lib/secret.ts'
import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'
import type { AccountSettings, IdentityProviderSettings } from './settings.ts'
import { closed, label, whole } from './shape.ts'

/** Days that a session lasts: unless set, and at most. */
const SESSION_DAYS = 7
const SESSION_DAYS_MOST = 90

/** More buttons than anybody looks through. */
const IDENTITY_PROVIDERS_MOST = 10

/** As a client's secret is issued: one word of printable ASCII. */
const SECRET = /^[\x21-\x7e]{1,1024}$/

const SECRET_HINT =
  "a credential must not be in this file: put it into an environment variable or a file, and name that in 'client_secret_env' or 'client_secret_file'"

const address = z
  .string()
  .max(500)
  .regex(
    /^(https:\/\/[^\s/?#@]+|http:\/\/(127\.0\.0\.1|localhost)(:\d+)?)(\/[^\s?#]*)?$/,
    'must be https, or http to this machine, without a query',
  )

const IdentityProviderShape = closed(
  {
    provider: z.enum(['oidc', 'google', 'github']),
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must be 1 to 32 lower-case letters, digits and dashes')
      .optional(),
    name: label.optional(),
    issuer: address.optional(),
    url: address.optional(),
    client_id: label,
    client_secret_env: variableName.optional(),
    client_secret_file: z.string().min(1).optional(),
  },
  { client_secret: SECRET_HINT, secret: SECRET_HINT },
)

/** The section `accounts` as it stands in the file. */
export const AccountsShape = closed({
  session_days: whole(1, SESSION_DAYS_MOST).default(SESSION_DAYS),
  registration: z.boolean().default(false),
  passkeys: z.boolean().default(false),
  identity_providers: z.array(IdentityProviderShape).max(IDENTITY_PROVIDERS_MOST).default([]),
}).optional()

type AccountsInput = NonNullable<z.infer<typeof AccountsShape>>
type IdentityProviderInput = z.infer<typeof IdentityProviderShape>

/** Reads how people sign in. */
export function loadAccounts(
  read: AccountsInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): AccountSettings {
  const found: IdentityProviderSettings[] = []
  for (const [index, each] of read.identity_providers.entries()) {
    const at = [...path, 'identity_providers', index]
    const provider = loadIdentityProvider(each, at, context, report)
    if (provider === null) continue
    if (found.some(({ id, issuer }) => id === provider.id || issuer === provider.issuer))
      report(at, 'has the id or the issuer of one above: change or remove one of them')
    found.push(provider)
  }
  const { session_days: sessionDays, registration: takesStrangers, passkeys } = read
  return { sessionDays, takesStrangers, passkeys, identityProviders: found }
}

/** Google speaks OpenID Connect; only what it is called is known beforehand. */
const KNOWN = {
  google: { kind: 'oidc', id: 'google', name: 'Google', issuer: 'https://accounts.google.com' },
  github: { kind: 'github', id: 'github', name: 'GitHub', issuer: 'https://github.com' },
} as const

function loadIdentityProvider(
  read: IdentityProviderInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): IdentityProviderSettings | null {
  const clientSecret = secretOf(read, path, context, report)
  const place = placeOf(read, path, report)
  return place && clientSecret && { ...place, clientId: read.client_id, clientSecret }
}

type Place = Pick<IdentityProviderSettings, 'kind' | 'id' | 'name' | 'issuer'>

function placeOf(read: IdentityProviderInput, path: Path, report: Report): Place | null {
  const { provider, id, name, issuer, url } = read
  const refuse = (key: 'id' | 'name' | 'issuer' | 'url', only: string) => {
    if (read[key] !== undefined) report([...path, key], `is for the provider ${only} only: remove it`, 'key')
  }
  if (provider !== 'github') refuse('url', 'github')
  if (provider !== 'oidc') {
    for (const key of ['id', 'name', 'issuer'] as const) refuse(key, 'oidc')
    const known = KNOWN[provider]
    return provider === 'github' && url !== undefined ? { ...known, issuer: url.replace(/\/+$/, '') } : known
  }
  for (const key of ['id', 'name', 'issuer'] as const)
    if (read[key] === undefined) report([...path, 'provider'], `needs '${key}' beside it`)
  return id === undefined || name === undefined || issuer === undefined ? null : { kind: 'oidc', id, name, issuer }
}

function secretOf(
  { client_secret_env: variable, client_secret_file: file }: IdentityProviderInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): Secret | null {
  if ((variable === undefined) === (file === undefined)) {
    report([...path, 'provider'], "needs either 'client_secret_env' or 'client_secret_file' beside it")
    return null
  }
  if (variable !== undefined)
    return credentialOf(variable, context, (reason) => report([...path, 'client_secret_env'], reason))
  const text = context.readText?.(resolve(context.directory, file ?? ''))?.trim() ?? ''
  if (SECRET.test(text)) return new Secret(text)
  report([...path, 'client_secret_file'], "must be the path of a file that has the client's secret, and nothing else")
  return null
}
