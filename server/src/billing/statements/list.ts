import type { Queryable } from '../../infra/postgres/database.ts'
import type { ListedEntry } from './statement.ts'
import { selectEntries } from './store.ts'

/** The entries of an organization's ledger that were posted before `endMs`, newest first; at most `limit`, from 1. */
export function listEntries(
  database: Queryable,
  organizationId: string,
  page: { readonly endMs: number; readonly limit: number },
): Promise<ListedEntry[]> {
  return selectEntries(database, organizationId, page.endMs, page.limit)
}
