import type { Queryable } from '../io/postgres/database.ts'
import { isUuid } from '../kernel/ids.ts'
import { findVideo } from './store.ts'
import type { Video } from './video.ts'

/** An organization's own job by what stands in a path; null: there is none, or it is another's. */
export function findOwn(db: Queryable, organizationId: string, id: string | undefined): Promise<Video | null> {
  return id !== undefined && isUuid(id) ? findVideo(db, organizationId, id) : Promise.resolve(null)
}
