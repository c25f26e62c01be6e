/**
 * The callers of requests. A route's access ({@link ./access.ts}) names the kinds that it takes, and its handler is given one
 * of those. `identity/` makes the principals. The rights and refusals here are those that several rooms know.
 */

import { refusal } from '../lib/errors.ts'
import type { Result } from '../lib/result.ts'

export const SCOPE_RESOURCES = ['serverless', 'billing', 'webhooks', 'instances'] as const
export type Resource = (typeof SCOPE_RESOURCES)[number]

/** From the least to the most: `write` includes `read`. */
export const SCOPE_LEVELS = ['none', 'read', 'write'] as const
export type Level = (typeof SCOPE_LEVELS)[number]

/** The resource and level that a route requires of an API key. */
export type Permission = `${Resource}:${Exclude<Level, 'none'>}`

/** From the least to the most: `owner` includes `admin`, which includes `member`. */
export const ROLES = ['member', 'admin', 'owner'] as const
export type Role = (typeof ROLES)[number]

/** A caller that acts for an organization. */
interface OrganizationPrincipal {
  /** UUID of the key or the member. Rates, open requests and Idempotency-Keys are counted by it (D7). */
  readonly id: string
  readonly organizationId: string
  /** Until when its organization is new (K2), in milliseconds since the epoch; null when it is not. */
  readonly newUntilMs: number | null
}

export interface ApiKeyPrincipal extends OrganizationPrincipal {
  readonly kind: 'apiKey'
  readonly scopes: Readonly<Record<Resource, Level>>
  /** True when it is the key of an organization admin. */
  readonly admin: boolean
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAtMs: number | null
}

/** A person who is signed in. `id` is that of the person's membership in the organization. */
export interface SessionPrincipal extends OrganizationPrincipal {
  readonly kind: 'session'
  /** Of the session itself. */
  readonly sessionId: string
  /** When the person signed in, in milliseconds since the epoch. */
  readonly signedInAtMs: number
  readonly userId: string
  readonly role: Role
  /** True when the person may do what the operator of the installation does. */
  readonly isOperator: boolean
}

/** A key or a session. Both act for one organization. */
export type KeyOrSession = ApiKeyPrincipal | SessionPrincipal

/** Anybody. */
export interface PublicPrincipal {
  readonly kind: 'public'
  /** The IPv4 address, or the /56 of the IPv6 address. */
  readonly address: string
}

/** The sender of a request whose signature was verified, such as a payment provider. */
export interface SignedPrincipal {
  readonly kind: 'signed'
  /** The name that the route's `verify` gives the sender. */
  readonly sender: string
}

export type Principal = KeyOrSession | PublicPrincipal | SignedPrincipal

/** Returns whether a role has rights that another has not. */
export function isAbove(role: Role, other: Role): boolean {
  return ROLES.indexOf(role) > ROLES.indexOf(other)
}

/** Returns whether scopes have every right. With less, an admin's key makes no keys, invites nobody and changes no member. */
export function isEveryRight(scopes: ApiKeyPrincipal['scopes']): boolean {
  return SCOPE_RESOURCES.every((resource) => scopes[resource] === 'write')
}

/** For every request with such a key, and so for those with a key of an organization that is deleted. */
export const INVALID_API_KEY = refusal(
  'invalid_api_key',
  'The API key is malformed, unknown, expired or revoked: use another one.',
)

/** For an organization that never was, and for one that is deleted, even while the request is under way. */
export const NO_ORGANIZATION = refusal('not_found', 'There is no such organization.')

/** For every member who asks for what an admin does. */
export const NO_ADMIN = refusal('insufficient_scope', 'This action needs an admin of the organization.')

/**
 * Returns the key of an `Authorization` header, at once when it is in memory, else after one query.
 * Refusals: `unauthenticated` (no header), `invalid_api_key` (malformed, unknown, revoked, expired) and
 * `upstream_unavailable` (the database can't be asked, or too many keys from the address wait to be looked up; in envelope A
 * `internal_error` with status 503). `address` is called only where the key is not in memory.
 */
export type Authenticate = (
  authorization: string | null | undefined,
  address: () => string,
) => Result<ApiKeyPrincipal> | Promise<Result<ApiKeyPrincipal>>

/**
 * Returns the session of a cookie's value. Refusals: `unauthenticated` (unknown, expired, signed out) and
 * `upstream_unavailable` (the database can't be asked). `address` is as for {@link Authenticate}.
 */
export type AuthenticateSession = (
  token: string,
  address: () => string,
) => Result<SessionPrincipal> | Promise<Result<SessionPrincipal>>

/**
 * Returns the sender of a signed request, or a refusal when the signature is wrong or too old. `bytes` are the body as it came.
 * A bug may throw; anything that a sender can cause is a refusal.
 */
export type Verify = (headers: Headers, bytes: Uint8Array) => Result<SignedPrincipal> | Promise<Result<SignedPrincipal>>
