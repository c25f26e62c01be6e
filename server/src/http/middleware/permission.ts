import { type Refusal, refusal } from '../../lib/errors.ts'
import type { ApiKeyAccess, KeyOrSessionAccess, SessionAccess } from '../access.ts'
import type { Middleware } from '../pipeline.ts'
import {
  type ApiKeyPrincipal,
  isAbove,
  isEveryRight,
  type KeyOrSession,
  type Level,
  NO_ADMIN,
  type Permission,
  type Resource,
} from '../principal.ts'

const PERMISSIONS: Readonly<Record<Permission, readonly [Resource, Level]>> = {
  'serverless:read': ['serverless', 'read'],
  'serverless:write': ['serverless', 'write'],
  'billing:read': ['billing', 'read'],
  'billing:write': ['billing', 'write'],
  'webhooks:read': ['webhooks', 'read'],
  'webhooks:write': ['webhooks', 'write'],
  'instances:read': ['instances', 'read'],
  'instances:write': ['instances', 'write'],
}

/** The interface's words (K1). Clients may look for them. */
const NEEDS_ADMIN_KEY = "This action needs an organization admin's key"
const NO_ADMIN_KEY = refusal('insufficient_scope', `${NEEDS_ADMIN_KEY}.`)
const NO_FULL_KEY = refusal('insufficient_scope', `${NEEDS_ADMIN_KEY} with the scope 'full_access'.`)
const NO_OWNER = refusal('insufficient_scope', 'This action needs an owner of the organization.')

/** Returns whether `scopes` cover `permission`: `write` includes `read`. */
export function allows(scopes: ApiKeyPrincipal['scopes'], permission: Permission): boolean {
  const [resource, needed] = PERMISSIONS[permission]
  const granted = scopes[resource]
  return granted === 'write' || granted === needed
}

/**
 * Returns the refusal of a caller who is no admin of the organization; null for an admin. For a part of a request that only an
 * admin may ask for.
 */
export function refuseNonAdmin(principal: KeyOrSession): Refusal | null {
  if (principal.kind === 'apiKey') return principal.admin ? null : NO_ADMIN_KEY
  return isAbove('admin', principal.role) ? NO_ADMIN : null
}

/** Requires the scope of a key, and the role of a key or a session: 403 without. */
export function permission(access: ApiKeyAccess | SessionAccess | KeyOrSessionAccess): Middleware {
  const wanted = access.kind === 'session' || access.permission === 'any' ? null : access.permission
  const needsFull = wanted === 'full'
  const needed = wanted === 'full' ? null : wanted
  const noScope = needed === null ? null : scopeRefusal(needed)
  const needsAdmin = access.role !== 'member'
  const noRole = access.role === 'owner' ? NO_OWNER : NO_ADMIN
  return ({ principal }) => {
    switch (principal.kind) {
      case 'apiKey':
        if (needed !== null && !allows(principal.scopes, needed)) return noScope
        if (needsFull && !(principal.admin && isEveryRight(principal.scopes))) return NO_FULL_KEY
        return needsAdmin && !principal.admin ? NO_ADMIN_KEY : null
      case 'session':
        return isAbove(access.role, principal.role) ? noRole : null
      default:
        throw new Error(`a route for keys or sessions was reached by a caller of the kind ${principal.kind}`)
    }
  }
}

function scopeRefusal(needed: Permission): Refusal {
  const [resource, level] = PERMISSIONS[needed]
  return refusal('insufficient_scope', `This key may not do this: it needs the scope '${resource}:${level}'.`)
}
