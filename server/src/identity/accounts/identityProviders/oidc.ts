import type { AuthorizationServer, Client } from 'oauth4webapi'
import { type Clock, HOUR_MS } from '../../../lib/time.ts'
import type { Flow, Identity, IdentityProvider, IdentityProviderOptions } from './identity.ts'
import { authorizationUrl, exchangeOptions, isRefusedThere, type OAuthDependencies } from './oauth.ts'

/** Providers change their endpoints and keys seldom, and announce it for longer. */
const METADATA_MS = HOUR_MS

interface OidcDependencies extends OAuthDependencies {
  readonly clock: Clock
}

/** A provider that speaks OpenID Connect and describes itself at its issuer's address. */
export function oidcProvider(dependencies: OidcDependencies, options: IdentityProviderOptions): IdentityProvider {
  const { oauth } = dependencies
  const { id, name, issuer, clientId } = options
  const client: Client = { client_id: clientId }
  const exchange = exchangeOptions(dependencies, issuer)
  const metadata = rememberedMetadata(dependencies, issuer)
  return {
    id,
    name,
    issuer,
    async askAt({ state, nonce, verifier }, redirectUri) {
      const { authorization_endpoint: endpoint } = await metadata()
      if (endpoint === undefined) throw new Error('the identity provider names no authorization_endpoint')
      const parameters = { client_id: clientId, redirect_uri: redirectUri, scope: 'openid email', state, nonce }
      return authorizationUrl(oauth, endpoint, parameters, verifier)
    },
    async identify(answer, flow, redirectUri, withEmails) {
      const server = await metadata()
      try {
        const code = oauth.validateAuthResponse(server, client, answer, flow.state)
        const secret = options.clientSecret.reveal()
        const proof = takesBasic(server) ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret)
        const response = await oauth.authorizationCodeGrantRequest(
          server,
          client,
          proof,
          code,
          redirectUri,
          flow.verifier,
          exchange,
        )
        return await identityOf(dependencies, { server, client, issuer }, response, flow, withEmails)
      } catch (error) {
        if (isRefusedThere(oauth, error)) return null
        throw error
      }
    },
  }
}

interface Parties {
  readonly server: AuthorizationServer
  readonly client: Client
  readonly issuer: string
}

/** Reads the answer of the token endpoint: issuer, audience, times, nonce and signature of the ID token. */
async function identityOf(
  dependencies: OAuthDependencies,
  { server, client, issuer }: Parties,
  response: Response,
  { nonce }: Flow,
  withEmails: boolean,
): Promise<Identity> {
  const { oauth } = dependencies
  const exchange = exchangeOptions(dependencies, issuer)
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
    expectedNonce: nonce,
    requireIdToken: true,
  })
  await oauth.validateApplicationLevelSignature(server, response, exchange)
  const claims = oauth.getValidatedIdTokenClaims(tokens)
  if (claims === undefined) throw new Error('the identity provider gave no ID token')
  const subject = claims.sub
  if (!withEmails) return { issuer, subject, verifiedEmails: [] }
  // Many providers tell the address at the UserInfo endpoint alone.
  const isTold = claims['email'] !== undefined || server.userinfo_endpoint === undefined
  const told = isTold
    ? claims
    : await oauth.processUserInfoResponse(
        server,
        client,
        subject,
        await oauth.userInfoRequest(server, client, tokens.access_token, exchange),
      )
  const { email, email_verified: isVerified } = told
  return {
    issuer,
    subject,
    verifiedEmails: isVerified === true && typeof email === 'string' ? [email.toLowerCase()] : [],
  }
}

function takesBasic({ token_endpoint_auth_methods_supported: methods }: AuthorizationServer): boolean {
  return methods === undefined || methods.includes('client_secret_basic')
}

/** Returns the function that gives the provider's description of itself, which is asked for again after an hour. */
function rememberedMetadata(dependencies: OidcDependencies, issuer: string): () => Promise<AuthorizationServer> {
  const { oauth, clock } = dependencies
  let known: { readonly server: AuthorizationServer; readonly untilMs: number } | null = null
  return async () => {
    if (known !== null && clock.monotonicMs() < known.untilMs) return known.server
    const url = new URL(issuer)
    const response = await oauth.discoveryRequest(url, exchangeOptions(dependencies, issuer))
    const server = await oauth.processDiscoveryResponse(url, response)
    known = { server, untilMs: clock.monotonicMs() + METADATA_MS }
    return server
  }
}
