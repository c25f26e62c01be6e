/** A route: who may call it, what it takes, who answers it, and what the description says of it. */

import type {
  Access,
  ApiKeyAccess,
  KeyOrSessionAccess,
  PrincipalOf,
  publicAccess,
  SessionAccess,
  SignedAccess,
} from './access.ts'
import type { DescribedRoute } from './describe.ts'
import type { Prepare } from './onceForKey.ts'
import type { Handle, Requirements } from './pipeline.ts'

/** Where the management interface is. Its envelope is A. */
export const MANAGE = '/manage/v1'

/** Where people pay, and where payment providers call. These routes are in no description. */
export const PAYMENTS = '/payments'

/** Where people sign in. These pages are in no description. */
export const ACCOUNT = '/account'

/** Of the page that an address without a path leads to. */
export const ROOT = ''

interface RouteOf<A extends Access> extends DescribedRoute, Requirements {
  readonly access: A
  /** The prefix of its path; left out: `/v1`. */
  readonly base?: typeof MANAGE | typeof PAYMENTS | typeof ACCOUNT | typeof ROOT
  /** The last parameter takes the rest of the path, slashes and all. */
  readonly takesRest?: true
}

interface ReadingRoute<A extends Access> extends RouteOf<A> {
  readonly method: 'GET'
  readonly handle: Handle<PrincipalOf[A['kind']]>
}

/** Carried out once for each Idempotency-Key; a PUT each time. */
interface DoingRoute<A extends ApiKeyAccess | SessionAccess | KeyOrSessionAccess> extends RouteOf<A> {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly prepare: Prepare<PrincipalOf[A['kind']]>
}

/** Its callers have no Idempotency-Keys, which belong to a key or a session (D7). */
interface UnkeyedRoute<A extends typeof publicAccess | SignedAccess> extends RouteOf<A> {
  readonly handle: Handle<PrincipalOf[A['kind']]>
}

interface SignedRoute extends UnkeyedRoute<SignedAccess> {
  readonly body: 'raw'
}

/** The type holds the handler to the access: one that is written for API keys is not taken for a route that lets sessions in. */
export type Route =
  | ReadingRoute<ApiKeyAccess>
  | ReadingRoute<SessionAccess>
  | ReadingRoute<KeyOrSessionAccess>
  | DoingRoute<ApiKeyAccess>
  | DoingRoute<SessionAccess>
  | DoingRoute<KeyOrSessionAccess>
  | UnkeyedRoute<typeof publicAccess>
  | SignedRoute

/** The path of a route in the table of paths, which knows parameters that take the rest of the path. */
export function patternOf({ base, path, takesRest }: Pick<Route, 'base' | 'path' | 'takesRest'>): string {
  return `${base ?? '/v1'}${takesRest === true ? path.replace(/\}$/, '...}') : path}`
}
