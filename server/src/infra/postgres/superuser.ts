import type { Queryable } from './database.ts'

/** Returns whether the role of this connection may do everything on its server, beyond this database too. */
export async function isSuperuser(database: Queryable): Promise<boolean> {
  const rows = await database.query('select 1 from pg_roles where rolname = current_user and rolsuper')
  return rows.length > 0
}
