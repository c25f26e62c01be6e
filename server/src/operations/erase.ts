import type { Queryable } from '../infra/postgres/database.ts'
import { deleteEndedOperationsOf } from './store.ts'

/** Deletes the operations of an organization that is deleted: their results have addresses of machines. Those under way stay until they end. */
export function eraseOperationsOf(database: Queryable, organizationId: string): Promise<void> {
  return deleteEndedOperationsOf(database, organizationId)
}
