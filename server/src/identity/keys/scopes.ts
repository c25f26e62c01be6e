import { type Level, type Resource, SCOPE_LEVELS, SCOPE_RESOURCES } from '../../http/principal.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'

/** The rights of a key (section 5 of the interface, K1). */

const SHORTCUTS = { full_access: 'write', read_only: 'read' } as const

type Shortcut = keyof typeof SHORTCUTS

/** A level for each resource. */
export interface Scopes extends Readonly<Record<Resource, Level>> {
  /** Kept, so that `full_access` goes on meaning everything when a resource is added. */
  readonly shortcut: Shortcut | null
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
    if (!isOneOf(SCOPE_RESOURCES, resource) || !isOneOf(SCOPE_LEVELS, level) || rest.length > 0) {
      return refusedScope(`"${part.trim()}" is not a scope`)
    }
    if (levels[resource] !== undefined) return refusedScope(`"${resource}" is named twice`)
    levels[resource] = level
  }
  return ok({ shortcut: null, serverless: 'none', billing: 'none', webhooks: 'none', instances: 'none', ...levels })
}

/** The canonical text: what {@link parseScopes} reads back as the same scopes; resources in a fixed order. */
export function printScopes(scopes: Scopes): string {
  if (scopes.shortcut !== null) return scopes.shortcut
  const named = SCOPE_RESOURCES.filter((resource) => scopes[resource] !== 'none')
  // A key that may do nothing still is a key; its text must not be empty.
  return (named.length > 0 ? named : SCOPE_RESOURCES).map((resource) => `${resource}:${scopes[resource]}`).join(',')
}

function ofShortcut(shortcut: Shortcut): Scopes {
  const level = SHORTCUTS[shortcut]
  return { shortcut, serverless: level, billing: level, webhooks: level, instances: level }
}

function isShortcut(text: string): text is Shortcut {
  return Object.hasOwn(SHORTCUTS, text)
}

function isOneOf<T extends string>(words: readonly T[], text: string | undefined): text is T {
  return words.some((word) => word === text)
}

function refusedScope(problem: string): Result<Scopes> {
  const advice =
    'use full_access, read_only, or a list of serverless, billing, webhooks and instances with none, read or write, ' +
    'such as serverless:write,billing:read'
  return refused(refusal('validation_failed', `The scope is not valid: ${problem}; ${advice}.`, { param: 'scope' }))
}
