/** The pages of identity providers, beneath /account. They are in no description. */

import { publicAccess } from '../../../http/access.ts'
import { ACCOUNT, type Route } from '../../../http/route.ts'
import {
  type IdentityHttpDependencies,
  postIdentity,
  postIdentityLink,
  postIdentityUnlink,
  showIdentities,
  showIdentityCallback,
} from './http.ts'

/** A button. */
const FORM = { body: 'form', bodyLimitBytes: 16 * 1024 } as const
/** The page that comes after the sign-in. */
const NEXT = { query: ['next'] } as const
/** The query with which a provider sends the browser back. It may add parameters of its own (RFC 6749, section 4.1.2). */
const ANSWER = { query: ['code', 'state', 'iss', 'error'], isQueryOpen: true } as const

/** Returns the pages of each provider; none where the settings have none. */
export function identityRoutes(dependencies: IdentityHttpDependencies): Route[] {
  const { providers } = dependencies
  if (providers.length === 0) return []
  const shared = { base: ACCOUNT, access: publicAccess } as const
  return [
    { ...shared, method: 'GET', path: '/identities', handle: showIdentities(dependencies) },
    ...providers.flatMap((provider): Route[] => {
      const path = `/identity/${provider.id}`
      return [
        { ...shared, method: 'POST', path, handle: postIdentity(dependencies, provider), ...FORM, ...NEXT },
        { ...shared, method: 'POST', path: `${path}/link`, handle: postIdentityLink(dependencies, provider), ...FORM },
        {
          ...shared,
          method: 'POST',
          path: `${path}/unlink`,
          handle: postIdentityUnlink(dependencies, provider),
          ...FORM,
        },
        {
          ...shared,
          method: 'GET',
          path: `${path}/callback`,
          handle: showIdentityCallback(dependencies, provider),
          ...ANSWER,
        },
      ]
    }),
  ]
}
