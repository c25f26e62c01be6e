import type { Queryable } from '../../infra/postgres/database.ts'
import type { EntryWindow, ListedEntry } from './statement.ts'
import { hasEntry, selectEntries } from './store.ts'

/** The entries of an organization's ledger in a window, newest first. Null: the organization has no entry `afterId`. */
export async function listEntries(
  database: Queryable,
  organizationId: string,
  window: EntryWindow,
): Promise<ListedEntry[] | null> {
  const { afterId } = window
  if (afterId !== null && !(await hasEntry(database, organizationId, afterId))) return null
  return await selectEntries(database, organizationId, window)
}
