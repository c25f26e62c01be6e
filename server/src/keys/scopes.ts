import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

/** What a key may do (section 5 of the interface, K1). */

const RESOURCES = ['serverless', 'billing', 'webhooks'] as const
const LEVELS = ['none', 'read', 'write'] as const
const SHORTCUTS = { full_access: 'write', read_only: 'read' } as const

type Resource = (typeof RESOURCES)[number]
type Level = (typeof LEVELS)[number]
type Shortcut = keyof typeof SHORTCUTS

/** What an endpoint asks for. */
export type Permission = `${Resource}:${'read' | 'write'}`

/** A level for each resource. */
export interface Scopes extends Readonly<Record<Resource, Level>> {
  /** Kept, so that `full_access` goes on meaning everything when a resource is added. */
  readonly shortcut: Shortcut | null
}

const PERMISSIONS: Readonly<Record<Permission, readonly [Resource, Level]>> = {
  'serverless:read': ['serverless', 'read'],
  'serverless:write': ['serverless', 'write'],
  'billing:read': ['billing', 'read'],
  'billing:write': ['billing', 'write'],
  'webhooks:read': ['webhooks', 'read'],
  'webhooks:write': ['webhooks', 'write'],
}

/** Whether `scopes` cover `permission`: `write` includes `read`. */
export function allows(scopes: Scopes, permission: Permission): boolean {
  const [resource, needed] = PERMISSIONS[permission]
  const granted = scopes[resource]
  return granted === 'write' || granted === needed
}

/**
 * Reads `full_access`, `read_only`, or a list such as `serverless:write,billing:read`, in which a resource that is not
 * named is `none`. Refuses (`validation_failed`) unknown words, a resource named twice, and an empty text.
 */
export function parseScopes(text: string): Result<Scopes> {
  const trimmed = text.trim()
  if (isShortcut(trimmed)) return ok(ofShortcut(trimmed))
  const levels: Partial<Record<Resource, Level>> = {}
  for (const part of trimmed.split(',')) {
    const [resource, level, ...rest] = part.trim().split(':')
    if (isShortcut(part.trim())) return refusedScope(`"${part.trim()}" stands alone and can't be combined with others`)
    if (!isOneOf(RESOURCES, resource) || !isOneOf(LEVELS, level) || rest.length > 0) {
      return refusedScope(`"${part.trim()}" is not a scope`)
    }
    if (levels[resource] !== undefined) return refusedScope(`"${resource}" is named twice`)
    levels[resource] = level
  }
  return ok({ shortcut: null, serverless: 'none', billing: 'none', webhooks: 'none', ...levels })
}

/** The canonical text: what {@link parseScopes} reads back as the same scopes; resources in a fixed order. */
export function printScopes(scopes: Scopes): string {
  if (scopes.shortcut !== null) return scopes.shortcut
  const named = RESOURCES.filter((resource) => scopes[resource] !== 'none')
  // A key that may do nothing still is a key; its text must not be empty.
  return (named.length > 0 ? named : RESOURCES).map((resource) => `${resource}:${scopes[resource]}`).join(',')
}

function ofShortcut(shortcut: Shortcut): Scopes {
  const level = SHORTCUTS[shortcut]
  return { shortcut, serverless: level, billing: level, webhooks: level }
}

function isShortcut(text: string): text is Shortcut {
  return Object.hasOwn(SHORTCUTS, text)
}

function isOneOf<T extends string>(words: readonly T[], text: string | undefined): text is T {
  return words.some((word) => word === text)
}

function refusedScope(problem: string): Result<Scopes> {
  const advice =
    'use full_access, read_only, or a list of serverless, billing and webhooks with none, read or write, ' +
    'such as serverless:write,billing:read'
  return refused(refusal('validation_failed', `The scope is not valid: ${problem}; ${advice}.`, { param: 'scope' }))
}
