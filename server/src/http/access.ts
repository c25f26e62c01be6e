/** The callers that a route admits. */

import type {
  ApiKeyPrincipal,
  KeyOrSession,
  Permission,
  PublicPrincipal,
  Role,
  SessionPrincipal,
  SignedPrincipal,
  Verify,
} from './principal.ts'

export interface ApiKeyAccess {
  readonly kind: 'apiKey'
  /** `any`: every valid key. */
  readonly permission: Permission | 'any'
  /** `admin`: the key of an organization admin. No key has an owner's role. */
  readonly role: Exclude<Role, 'owner'>
}

export interface SessionAccess {
  readonly kind: 'session'
  readonly role: Role
  /** Operators alone: everybody else is answered as if there were no such path. */
  readonly forOperators?: true
}

export interface KeyOrSessionAccess {
  readonly kind: 'apiKeyOrSession'
  /** Of a key. `full`: the key of an organization admin that has every scope (K1). `any`: every valid key. */
  readonly permission: Permission | 'full' | 'any'
  readonly role: Role
}

interface PublicAccess {
  readonly kind: 'public'
}

export interface SignedAccess {
  readonly kind: 'signed'
  readonly verify: Verify
}

export type Access = ApiKeyAccess | SessionAccess | KeyOrSessionAccess | PublicAccess | SignedAccess

/** The principals that a handler meets, by the access of its route. */
export interface PrincipalOf {
  readonly apiKey: ApiKeyPrincipal
  readonly session: SessionPrincipal
  readonly apiKeyOrSession: KeyOrSession
  readonly public: PublicPrincipal
  readonly signed: SignedPrincipal
}

/** API keys with the scope, or with `role` `admin` those of organization admins among them. */
export function apiKey(permission: Permission | 'any', role: ApiKeyAccess['role'] = 'member'): ApiKeyAccess {
  return { kind: 'apiKey', permission, role }
}

/** People who are signed in and have the role. */
export function session(role: Role): SessionAccess {
  return { kind: 'session', role }
}

/** People who are signed in and are operators. Everybody else is answered as if there were no such path. */
export const operatorSession: SessionAccess = { kind: 'session', role: 'member', forOperators: true }

/** API keys with the scope, and people who are signed in. Either must have the role: `admin` asks for an admin's key. */
export function apiKeyOrSession(permission: Permission, role: Role): KeyOrSessionAccess {
  return { kind: 'apiKeyOrSession', permission, role }
}

/** Every valid key, and people who are signed in. */
export const anyKeyOrSession: KeyOrSessionAccess = { kind: 'apiKeyOrSession', permission: 'any', role: 'member' }

/** Keys of organization admins that have every scope, and people who are signed in and have the role. */
export function fullKeyOrSession(role: Role): KeyOrSessionAccess {
  return { kind: 'apiKeyOrSession', permission: 'full', role }
}

/** Everybody. The rate is limited by the client's address. */
export const publicAccess: PublicAccess = { kind: 'public' }

/** Senders whose requests pass `verify`. The route's body is `raw`. */
export function signed(verify: Verify): SignedAccess {
  return { kind: 'signed', verify }
}

interface MethodAndAccess {
  readonly method: string
  readonly access: Pick<Access, 'kind'>
}

/** Returns whether a route changes something for a key or a session: its fields are validated before the rest of the work (`Prepare`). */
export function isChange({ method, access }: MethodAndAccess): boolean {
  return method !== 'GET' && access.kind !== 'public' && access.kind !== 'signed'
}

/** Returns whether requests to a route may have an Idempotency-Key: all changes but a PUT, which may be sent again anyway. */
export function takesIdempotencyKey(route: MethodAndAccess): boolean {
  return isChange(route) && route.method !== 'PUT'
}
