/** An identity provider of OpenID Connect whose ID tokens say whatever a test wants. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import { freePort } from './freePort.ts'
import { CLIENT_ID } from './singleSignOn.ts'

export interface ForgingProvider {
  readonly issuer: string
  /** Claims in place of good ones; null takes one away. A test changes them. */
  forged: Readonly<Record<string, unknown>>
  /** True when ID tokens are signed by a key that is not the provider's. */
  isSignedByAnother: boolean
  /** Goes where a page leads the browser to; returns the path and the query by which the browser comes back. */
  visit(url: string): string
  close(): Promise<void>
}

/** Starts it. Call `close` in `afterAll`. */
export async function openForgingProvider(): Promise<ForgingProvider> {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const [own, another] = [newKeys(), newKeys()]
  const nonces = new Map<string, string>()
  const provider: ForgingProvider = {
    issuer,
    forged: {},
    isSignedByAnother: false,
    visit(url) {
      const { searchParams } = new URL(url)
      const code = crypto.randomUUID()
      nonces.set(code, searchParams.get('nonce') ?? '')
      const back = new URL(searchParams.get('redirect_uri') ?? '').pathname
      return `${back}?code=${code}&state=${encodeURIComponent(searchParams.get('state') ?? '')}`
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  const tokenFor = (code: string) => {
    const seconds = Math.floor(Date.now() / 1_000)
    const good = {
      iss: issuer,
      aud: CLIENT_ID,
      sub: 'ada-there',
      iat: seconds,
      exp: seconds + 300,
      nonce: nonces.get(code),
    }
    const claims = Object.entries({ ...good, email: 'ada@example.com', email_verified: true, ...provider.forged })
    const { privateKey } = provider.isSignedByAnother ? another : own
    return signed(Object.fromEntries(claims.filter(([, value]) => value !== null)), privateKey)
  }
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '', issuer)
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const code = new URLSearchParams(Buffer.concat(chunks).toString()).get('code') ?? ''
    if (pathname === '/.well-known/openid-configuration') json(response, descriptionOf(issuer))
    else if (pathname === '/jwks')
      json(response, { keys: [{ ...own.publicKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' }] })
    else if (pathname === '/token' && nonces.has(code))
      json(response, {
        access_token: `token of ${code}`,
        token_type: 'bearer',
        expires_in: 60,
        id_token: tokenFor(code),
      })
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return provider
}

const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

function descriptionOf(issuer: string): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['ES256'],
  }
}

function json(response: ServerResponse, body: object): void {
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify(body))
}

/** A JSON Web Token, signed with ES256. */
function signed(claims: object, key: KeyObject): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${part({ alg: 'ES256', typ: 'JWT' })}.${part(claims)}`
  return `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
}
