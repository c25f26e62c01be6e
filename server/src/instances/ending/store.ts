/** The queries on all instances of an organization that is deleted. */

import type { Queryable } from '../../infra/postgres/database.ts'
import type { Instance } from '../job/instance.ts'
import { INSTANCE_COLUMNS, type InstanceRow, toInstance } from '../job/row.ts'

/** The live instances of an organization, in the order of their ids; `locks`: until the end of the transaction. */
export async function selectLive(
  db: Queryable,
  organizationId: string,
  { locks }: { readonly locks: boolean },
): Promise<Instance[]> {
  const rows = await db.query<InstanceRow>(
    `select ${INSTANCE_COLUMNS} from instances where organization_id = $1::uuid and state in ('creating', 'running')
     order by id ${locks ? 'for update' : ''}`,
    [organizationId],
  )
  return rows.map(toInstance)
}

/** Erases the words of an organization for its instances that are over, and the addresses of their machines. */
export async function eraseWordsOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    `update instances set name = app, app_url = null, terminal_url = null, app_target = null, terminal_target = null,
       app_password_hash = null
     where organization_id = $1::uuid and state not in ('creating', 'running')`,
    [organizationId],
  )
}
