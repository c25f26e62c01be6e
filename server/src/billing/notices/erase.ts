import type { Queryable } from '../../infra/postgres/database.ts'
import { deleteNoticesOf } from './store.ts'

/** Deletes the notices of an organization that is deleted: nobody is told of them, and their links may be opened by anybody. */
export function eraseNotices(database: Queryable, organizationId: string): Promise<void> {
  return deleteNoticesOf(database, organizationId)
}
