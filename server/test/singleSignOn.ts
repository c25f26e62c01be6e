/** Identity providers for tests: one that speaks OpenID Connect (oidc-provider, in this process), and a stand-in for GitHub. */

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { freePort } from './freePort.ts'

const require = createRequire(import.meta.url)

export const CLIENT_ID = 'tollgate'
export const CLIENT_SECRET = 'canary-of-the-client-secret'

/** The person whom a provider knows. A test changes it. */
export interface KnownThere {
  subject: string
  email: string
  isVerified: boolean
  /** The person does not agree. */
  isRefusing: boolean
}

export interface TestIdentityProvider {
  readonly issuer: string
  readonly person: KnownThere
  /** Goes where a page leads the browser to, as its person; returns the path and the query by which the browser comes back. */
  visit(url: string): Promise<string>
  /** Secrets that it has sent: codes and tokens. */
  readonly sent: string[]
  close(): Promise<void>
}

function ada(): KnownThere {
  return { subject: 'ada-there', email: 'Ada@Example.com', isVerified: true, isRefusing: false }
}

interface OidcServer {
  callback(): (request: IncomingMessage, response: ServerResponse) => void
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
  on(event: string, listener: (...words: never[]) => void): void
}

interface Context {
  readonly oidc: {
    readonly client: { readonly clientId: string }
    readonly session: { readonly accountId: string }
    readonly provider: {
      readonly Grant: new (of: object) => { addOIDCScope(scope: string): void; save(): Promise<void> }
    }
  }
}

/** Starts a provider of OpenID Connect whose client may come back to `redirectUri`. Call `close` in `afterAll`. */
export async function openOidcProvider(redirectUri: string, more: object = {}): Promise<TestIdentityProvider> {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const person = ada()
  const sent: string[] = []
  const Provider: new (issuer: string, settings: object) => OidcServer = require('oidc-provider').default
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirectUri] }],
    cookies: { keys: ['a key of the test'] },
    pkce: { required: () => true },
    claims: { email: ['email', 'email_verified'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_context: unknown, accountId: string) => ({
      accountId,
      claims: () => ({ sub: accountId, email: person.email, email_verified: person.isVerified }),
    }),
    async loadExistingGrant({ oidc }: Context) {
      const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
      grant.addOIDCScope('openid email')
      await grant.save()
      return grant
    },
    ...more,
  })
  const answer = provider.callback()
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/interaction/') !== true) return answer(request, response)
    const refusal = { error: 'access_denied', error_description: 'not today' }
    const result = person.isRefusing ? refusal : { login: { accountId: person.subject } }
    void provider.interactionFinished(request, response, result)
  })
  await listen(server, port)
  return {
    issuer,
    person,
    sent,
    visit: (url) => followTo(url, issuer, new URL(redirectUri).origin, sent),
    close: () => closeServer(server),
  }
}

/** Follows redirects of the provider as a browser does, with its cookies, until one leads back. */
async function followTo(url: string, issuer: string, back: string, sent: string[]): Promise<string> {
  const cookies = new Map<string, string>()
  let at = url
  for (let steps = 0; steps < 10; steps += 1) {
    const response = await fetch(at, {
      redirect: 'manual',
      headers: { Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (value === '') cookies.delete(name)
      else cookies.set(name, value)
    }
    const location = response.headers.get('Location')
    if (location === null) throw new Error(`${at} was answered with ${response.status}: ${await response.text()}`)
    const next = new URL(location, issuer)
    if (next.origin === back) {
      const code = next.searchParams.get('code')
      if (code !== null) sent.push(code)
      return `${next.pathname}${next.search}`
    }
    at = next.href
  }
  throw new Error('the provider leads nowhere')
}

/** Starts a stand-in for a GitHub Enterprise Server. It holds to PKCE and to the client's secret. Call `close` in `afterAll`. */
export async function openTestGithub(): Promise<TestIdentityProvider> {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const person = { ...ada(), subject: '4711' }
  const sent: string[] = []
  const challenges = new Map<string, string>()
  const json = (response: ServerResponse, body: unknown) => {
    response.setHeader('Content-Type', 'application/json')
    response.end(JSON.stringify(body))
  }
  const token = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const form = new URLSearchParams(Buffer.concat(chunks).toString())
    const proof = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const code = form.get('code') ?? ''
    const isGood = form.get('client_secret') === CLIENT_SECRET && challenges.get(code) === proof
    challenges.delete(code)
    // GitHub refuses with 200.
    if (!isGood) return json(response, { error: 'bad_verification_code' })
    const made = `gho_${crypto.randomUUID()}`
    sent.push(made)
    json(response, { access_token: made, token_type: 'bearer', scope: 'read:user,user:email' })
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', issuer)
    const isKnown = sent.includes(request.headers.authorization?.replace(/^Bearer /i, '') ?? '')
    if (pathname === '/login/oauth/access_token') void token(request, response)
    else if (!isKnown) response.writeHead(401).end()
    else if (pathname === '/api/v3/user') json(response, { login: 'ada', id: Number(person.subject) })
    else if (pathname === '/api/v3/user/emails')
      json(response, [
        { email: 'elsewhere@example.com', verified: true, primary: true },
        { email: person.email, verified: person.isVerified, primary: false },
      ])
    else response.writeHead(404).end()
  })
  await listen(server, port)
  return {
    issuer,
    person,
    sent,
    async visit(url) {
      const { searchParams } = new URL(url)
      const state = encodeURIComponent(searchParams.get('state') ?? '')
      const back = new URL(searchParams.get('redirect_uri') ?? '').pathname
      if (person.isRefusing) return `${back}?error=access_denied&error_description=x&state=${state}`
      const code = crypto.randomUUID()
      sent.push(code)
      challenges.set(code, searchParams.get('code_challenge') ?? '')
      return `${back}?code=${code}&state=${state}`
    },
    close: () => closeServer(server),
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}
