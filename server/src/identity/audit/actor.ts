import type { KeyOrSession } from '../../http/principal.ts'
import type { ClientAddress } from '../../lib/clientAddress.ts'
import type { Actor } from './entry.ts'

/** As much of a request as says who acts. */
export interface ActingRequest {
  readonly principal: KeyOrSession
  readonly connection: { readonly address: string }
  readonly request: { readonly headers: Headers }
}

/** Returns who acts by a request, and from where. */
export function actorOf(clientAddress: ClientAddress, { principal, connection, request }: ActingRequest): Actor {
  const address = clientAddress(connection.address, request.headers.get('X-Forwarded-For'))
  return principal.kind === 'session'
    ? { kind: 'user', id: principal.userId, address }
    : { kind: 'api_key', id: principal.id, address, isAdminsKey: principal.admin }
}
