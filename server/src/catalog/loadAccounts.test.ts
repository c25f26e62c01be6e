import { describe, expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

const environment = { SSO_SECRET: 'canary-of-the-environment' }
const files: Readonly<Record<string, string>> = {
  '/etc/tollgate/secret': 'canary-of-the-file\n',
  '/etc/tollgate/two': 'canary one\ncanary two\n',
  '/etc/tollgate/empty': '',
}

function load(section: string) {
  const readText = (path: string) => files[path] ?? null
  const around = { environment, directory: '/etc/tollgate', fileExists: () => false, readText }
  const loaded = loadSettings(`accounts: ${section}\n`, around)
  return loaded.ok ? loaded.settings.fixed.accounts : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)
}

const withProviders = (...providers: string[]) => load(`{ identity_providers: [${providers.join(', ')}] }`)
const REST = 'client_id: c, client_secret_env: SSO_SECRET'
const OIDC = `provider: oidc, id: company, name: Company, ${REST}`

test('passkeys and identity providers are off unless they are named', () => {
  expect(load('{}')).toEqual({ sessionDays: 7, takesStrangers: false, passkeys: false, identityProviders: [] })
  expect(load('{ passkeys: true }')).toMatchObject({ passkeys: true })
})

test('an identity provider has its secret from the environment or from a file', () => {
  const read = withProviders(
    `{ ${OIDC}, issuer: "https://login.example.com/realms/a" }`,
    '{ provider: google, client_id: g, client_secret_file: secret }',
    `{ provider: github, ${REST} }`,
  )
  if (read === null || Array.isArray(read)) throw new Error(String(read))
  expect(
    read.identityProviders.map(({ clientSecret, ...rest }) => [
      rest.kind,
      rest.id,
      rest.name,
      rest.issuer,
      rest.clientId,
      clientSecret.reveal(),
    ]),
  ).toEqual([
    ['oidc', 'company', 'Company', 'https://login.example.com/realms/a', 'c', 'canary-of-the-environment'],
    ['oidc', 'google', 'Google', 'https://accounts.google.com', 'g', 'canary-of-the-file'],
    ['github', 'github', 'GitHub', 'https://github.com', 'c', 'canary-of-the-environment'],
  ])
  expect(JSON.stringify(read)).not.toContain('canary')
  expect(withProviders(`{ provider: github, url: "https://github.example.com/", ${REST} }`)).toMatchObject({
    identityProviders: [{ issuer: 'https://github.example.com' }],
  })
})

describe('mistakes say what to do, and quote no credential', () => {
  const issuer = 'issuer: "https://login.example.com"'
  test.each([
    ['{ provider: facebook, client_id: c }', "must be 'oidc' or 'google' or 'github'"],
    [`{ provider: oidc, ${REST} }`, "needs 'issuer' beside it"],
    [`{ ${OIDC}, issuer: "http://login.example.com" }`, 'must be https'],
    [`{ ${OIDC}, issuer: "https://login.example.com?x=1" }`, 'must be https'],
    [`{ ${OIDC}, issuer: "https://a:b@login.example.com" }`, 'must be https'],
    [`{ ${OIDC}, ${issuer}, url: "https://x.example" }`, 'is for the provider github only'],
    [`{ provider: google, ${issuer}, ${REST} }`, 'is for the provider oidc only'],
    [`{ provider: oidc, id: "A/b", name: C, ${issuer}, ${REST} }`, 'lower-case letters'],
    ['{ provider: google, client_id: c }', "needs either 'client_secret_env' or 'client_secret_file'"],
    [`{ provider: google, ${REST}, client_secret_file: secret }`, "needs either 'client_secret_env' or"],
    ['{ provider: google, client_id: c, client_secret: canary }', "name that in 'client_secret_env'"],
    ['{ provider: google, client_id: c, client_secret_env: NONE }', 'the environment variable NONE is not set'],
    ['{ provider: google, client_id: c, client_secret_file: none }', 'must be the path of a file'],
    ['{ provider: google, client_id: c, client_secret_file: two }', 'must be the path of a file'],
    ['{ provider: google, client_id: c, client_secret_file: empty }', 'must be the path of a file'],
    [`{ provider: google, ${REST} }, { provider: google, ${REST} }`, 'has the id or the issuer of one above'],
  ])('%s', (providers, reason) => {
    const problems = withProviders(providers)
    expect(problems).toEqual(expect.arrayContaining([expect.stringContaining(reason)]))
    expect(JSON.stringify(problems)).not.toContain('canary')
  })
})
