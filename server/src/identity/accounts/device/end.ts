import type { Queryable } from '../../../infra/postgres/database.ts'
import { deleteLoginsOf } from './store.ts'

/** Ends the logins that members of an organization have claimed, also members who were removed. They have names and addresses of machines. */
export function endDeviceLoginsOf(database: Queryable, organizationId: string): Promise<void> {
  return deleteLoginsOf(database, organizationId)
}
