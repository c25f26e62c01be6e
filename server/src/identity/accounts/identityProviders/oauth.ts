import type * as OAuth from 'oauth4webapi'
import type { Fetch } from '../../../infra/fetch.ts'

/** The package, once it is loaded. */
export type OAuthPackage = typeof OAuth

/** How a provider is asked. */
export interface OAuthDependencies {
  readonly oauth: OAuthPackage
  /** Bounded in time and bytes; follows no redirect. */
  readonly send: Fetch
}

/** Returns the options of each exchange with a provider. Plain HTTP is for providers on this machine, which the settings check. */
export function exchangeOptions({ oauth, send }: OAuthDependencies, issuer: string) {
  return {
    [oauth.customFetch]: (url: string, init: object) => send(url, init),
    [oauth.allowInsecureRequests]: issuer.startsWith('http:'),
  }
}

/** Returns the address at which a provider asks, with the challenge of PKCE. */
export async function authorizationUrl(
  oauth: OAuthPackage,
  endpoint: string,
  parameters: Readonly<Record<string, string>>,
  verifier: string,
): Promise<string> {
  const url = new URL(endpoint)
  const all = {
    ...parameters,
    response_type: 'code',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(all)) url.searchParams.set(name, value)
  return url.href
}

/** Returns whether the provider, or the person there, refused. Any other failure is one of the exchange. */
export function isRefusedThere(oauth: OAuthPackage, error: unknown): boolean {
  return error instanceof oauth.AuthorizationResponseError
}
