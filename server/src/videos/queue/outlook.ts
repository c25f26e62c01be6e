import { DEFAULT_VIDEO_RUNNING } from '../../catalog/model.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { VideoDependencies } from '../job/dependencies.ts'
import type { Video } from '../job/video.ts'
import { readAhead, readRecentSeconds } from './store.ts'

/** Jobs and organizations beyond these are not counted: the answer would be of no use, and the count not free. */
const AHEAD_MOST = 1_000
const OTHERS_MOST = 50
/** Jobs of the model that the range is made of, and the least that say anything. */
const RECENT_MOST = 20
const RECENT_LEAST = 3

/** The estimate for a job that is not over. */
export interface Outlook {
  /** Its place among the jobs of its organization and model, from 1; `AHEAD_MOST` stands for that and more. Null: it runs. */
  readonly position: number | null
  /** Seconds from now within which it is likely to be complete; null: nothing is known of the model. */
  readonly seconds: { readonly soonest: number; readonly latest: number } | null
}

/** Null: it is over. */
export async function outlookFor(
  { database, clock, catalog }: Pick<VideoDependencies, 'clock' | 'catalog'> & { readonly database: Queryable },
  video: Video,
): Promise<Outlook | null> {
  const { status, model, startedAtMs } = video
  if (status === 'submitting' || status === 'in_progress') {
    const recent = await readRecentSeconds(database, model, RECENT_MOST)
    const elapsed = startedAtMs === null ? 0 : (clock.now() - startedAtMs) / SECOND_MS
    return { position: status === 'submitting' ? 1 : null, seconds: rangeOf(recent, (each) => each - elapsed) }
  }
  if (status !== 'queued') return null
  const [{ ahead, organizations }, recent] = await Promise.all([
    readAhead(database, video, AHEAD_MOST - 1, OTHERS_MOST),
    readRecentSeconds(database, model, RECENT_MOST),
  ])
  const found = catalog().find(model)
  const { concurrency } = (found.kind === 'found' ? found.model.video : undefined) ?? DEFAULT_VIDEO_RUNNING
  // Alone, or taking turns with everybody who waits.
  const soonest = Math.floor(ahead / concurrency) + 1
  const latest = Math.ceil(((ahead + 1) * organizations) / concurrency) + 1
  return {
    position: ahead + 1,
    seconds: rangeOf(recent, (each, isLatest) => each * (isLatest ? latest : soonest)),
  }
}

/** From the quickest tenth to the slowest tenth of what was seen. */
function rangeOf(recent: readonly number[], scale: (seconds: number, isLatest: boolean) => number): Outlook['seconds'] {
  if (recent.length < RECENT_LEAST) return null
  const sorted = recent.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0
  const soonest = Math.max(Math.floor(scale(at(0.1), false)), 1)
  return { soonest, latest: Math.max(Math.ceil(scale(at(0.9), true)), soonest) }
}
