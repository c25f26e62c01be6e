import type { Queryable } from '../infra/postgres/database.ts'
import { isUuid } from '../lib/ids.ts'
import type { Video } from './job/video.ts'
import { findVideo } from './store.ts'

/** An organization's own job by what stands in a path; null: there is none, or it is another's. */
export function findOwn(db: Queryable, organizationId: string, id: string | undefined): Promise<Video | null> {
  return id !== undefined && isUuid(id) ? findVideo(db, organizationId, id) : Promise.resolve(null)
}
