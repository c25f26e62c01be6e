import type { Queryable } from '../../infra/postgres/database.ts'
import type { ListedNotice, NoticePlace } from './notice.ts'
import { selectNotices } from './store.ts'

/** Lists the notices of an organization behind one of them, the newest first, so many at most. */
export function listNotices(
  database: Queryable,
  organizationId: string,
  after: NoticePlace | null,
  atMost: number,
): Promise<ListedNotice[]> {
  return selectNotices(database, organizationId, after, atMost)
}
