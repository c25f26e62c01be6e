/** The steps that say who calls. Each sets the principal of the request. */

import { addressGroup } from '../../lib/clientAddress.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import type { Result } from '../../lib/result.ts'
import { cookieOf } from '../cookie.ts'
import type { Middleware, PendingRequest, PipelineDependencies, Sessions } from '../pipeline.ts'
import type { Principal } from '../principal.ts'

const NOT_SIGNED_IN = refusal('unauthenticated', 'You are not signed in. Sign in, then try again.')

type ClientAddress = PipelineDependencies['clientAddress']

/** Requires an API key: 401 without a valid one, 503 while too many keys from the address wait to be looked up. */
export function withKey({
  authenticate,
  clientAddress,
}: Pick<PipelineDependencies, 'authenticate' | 'clientAddress'>): Middleware {
  return (pending) => {
    // Asked for only when the key is not known already: finding the peer's address costs more than finding the key.
    const address = () => addressOf(clientAddress, pending)
    const found = authenticate(pending.request.headers.get('Authorization'), address)
    return found instanceof Promise ? found.then((later) => take(pending, later)) : take(pending, found)
  }
}

/** Requires a session, which comes by its cookie: 401 without. Nobody passes where there are no sessions. */
export function withSession({
  sessions,
  clientAddress,
}: Pick<PipelineDependencies, 'sessions' | 'clientAddress'>): Middleware {
  if (sessions === undefined) return () => NOT_SIGNED_IN
  return (pending) => {
    const token = tokenOf(sessions, pending)
    if (token === null) return NOT_SIGNED_IN
    const found = sessions.authenticate(token, () => addressOf(clientAddress, pending))
    return found instanceof Promise ? found.then((later) => take(pending, later)) : take(pending, found)
  }
}

/** Requires a key or a session. A request that brings both is the key's: a browser adds the cookie unasked. */
export function withKeyOrSession(
  dependencies: Pick<PipelineDependencies, 'authenticate' | 'sessions' | 'clientAddress'>,
): Middleware {
  const { sessions } = dependencies
  const byKey = withKey(dependencies)
  if (sessions === undefined) return byKey
  const bySession = withSession(dependencies)
  return (pending) =>
    pending.request.headers.has('Authorization') || tokenOf(sessions, pending) === null
      ? byKey(pending)
      : bySession(pending)
}

/** Lets everybody pass, known by the address alone. */
export function withAddress({ clientAddress }: Pick<PipelineDependencies, 'clientAddress'>): Middleware {
  return (pending) => {
    pending.principal = { kind: 'public', address: addressGroup(addressOf(clientAddress, pending)) }
    return null
  }
}

function tokenOf({ cookie }: Sessions, { request }: PendingRequest): string | null {
  return cookieOf(request.headers.get('Cookie'), cookie)
}

function addressOf(clientAddress: ClientAddress, { connection, request }: PendingRequest): string {
  return clientAddress(connection.address, request.headers.get('X-Forwarded-For'))
}

function take(pending: PendingRequest, found: Result<Principal>): Refusal | null {
  if (!found.ok) return found.refusal
  pending.principal = found.value
  return null
}
