import type { KeyOrSession } from '../http/principal.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { isUuid } from '../lib/ids.ts'
import type { Operation } from './operation.ts'
import { findOperation } from './store.ts'

/**
 * An operation by its id in a path, as its caller may see it: a key those that it asked for itself, a session those of its
 * organization. Null: there is none, or it is another's.
 */
export function findOwnOperation(db: Queryable, principal: KeyOrSession, id: string | undefined) {
  if (id === undefined || !isUuid(id)) return Promise.resolve<Operation | null>(null)
  return findOperation(db, principal.organizationId, principal.kind === 'apiKey' ? principal.id : null, id)
}
