import { z } from 'zod'
import type { IdentityProvider, IdentityProviderOptions } from './identity.ts'
import { authorizationUrl, exchangeOptions, isRefusedThere, type OAuthDependencies } from './oauth.ts'

const PUBLIC_GITHUB = 'https://github.com'
/** GitHub refuses requests that do not say whose they are. */
const HEADERS = { Accept: 'application/vnd.github+json', 'User-Agent': 'tollgate' }

const userAnswer = z.object({ id: z.int().positive() })
const emailsAnswer = z.array(z.object({ email: z.string(), verified: z.boolean() })).max(1_000)

/** GitHub, or a GitHub Enterprise Server at `issuer`: OAuth 2.0 without ID tokens, so that its API says who the person is. */
export function githubProvider(dependencies: OAuthDependencies, options: IdentityProviderOptions): IdentityProvider {
  const { oauth } = dependencies
  const { id, name, issuer, clientId } = options
  const api = issuer === PUBLIC_GITHUB ? 'https://api.github.com' : `${issuer}/api/v3`
  const server = { issuer, token_endpoint: `${issuer}/login/oauth/access_token` }
  const client = { client_id: clientId }
  const exchange = exchangeOptions(dependencies, issuer)
  const ask = async <T>(token: string, path: string, schema: z.ZodType<T>): Promise<T> => {
    const url = new URL(`${api}${path}`)
    const response = await oauth.protectedResourceRequest(token, 'GET', url, new Headers(HEADERS), null, exchange)
    if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}`)
    return schema.parse(await response.json())
  }
  return {
    id,
    name,
    issuer,
    askAt: ({ state, verifier }, redirectUri) =>
      authorizationUrl(
        oauth,
        `${issuer}/login/oauth/authorize`,
        { client_id: clientId, redirect_uri: redirectUri, scope: 'read:user user:email', state },
        verifier,
      ),
    async identify(answer, flow, redirectUri, withEmails) {
      try {
        // GitHub names its issuer in another way than its address, and has its own redirect address here.
        const known = new URLSearchParams(answer)
        known.delete('iss')
        const code = oauth.validateAuthResponse(server, client, known, flow.state)
        const proof = oauth.ClientSecretPost(options.clientSecret.reveal())
        const response = await oauth.authorizationCodeGrantRequest(
          server,
          client,
          proof,
          code,
          redirectUri,
          flow.verifier,
          exchange,
        )
        const { access_token: token } = await oauth.processAuthorizationCodeResponse(server, client, response)
        const subject = String((await ask(token, '/user', userAnswer)).id)
        const emails = withEmails ? await ask(token, '/user/emails?per_page=100', emailsAnswer) : []
        const verifiedEmails = emails.filter(({ verified }) => verified).map(({ email }) => email.toLowerCase())
        return { issuer, subject, verifiedEmails }
      } catch (error) {
        if (isRefusedThere(oauth, error)) return null
        throw error
      }
    },
  }
}
