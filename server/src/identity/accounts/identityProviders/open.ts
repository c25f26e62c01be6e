import { boundedFetch, systemFetch } from '../../../infra/fetch.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { githubProvider } from './github.ts'
import type { IdentityProvider, IdentityProviderOptions } from './identity.ts'
import { oidcProvider } from './oidc.ts'

/** A person waits for each exchange, and an answer has a few kilobytes. */
const BOUNDS = { wholeMs: 10 * SECOND_MS, maxBytes: 1024 * 1024 }

/** Opens the providers of the settings. The package is loaded here, so that whoever has none does not wait for it. */
export async function openIdentityProviders(
  clock: Clock,
  settings: readonly IdentityProviderOptions[],
): Promise<readonly IdentityProvider[]> {
  if (settings.length === 0) return []
  const oauth = await import('oauth4webapi')
  const dependencies = { oauth, clock, send: boundedFetch(systemFetch, clock, BOUNDS) }
  return settings.map((each) =>
    each.kind === 'github' ? githubProvider(dependencies, each) : oidcProvider(dependencies, each),
  )
}
