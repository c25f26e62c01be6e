import type { Queryable } from '../../infra/postgres/database.ts'
import type { ListedNotice, NoticePlace } from './notice.ts'
import { selectNotices } from './store.ts'

/** Lists at most `atMost` notices of an organization, the newest first, from the one after the place `after` on. */
export function listNotices(
  database: Queryable,
  organizationId: string,
  after: NoticePlace | null,
  atMost: number,
): Promise<ListedNotice[]> {
  return selectNotices(database, organizationId, after, atMost)
}
