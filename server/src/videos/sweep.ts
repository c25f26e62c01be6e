import { HOUR_MS } from '../lib/time.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { ofArtifact } from './job/video.ts'
import { findOrphans } from './store.ts'

/** Younger files may be about to be published. */
const YOUNG_MS = HOUR_MS
const PAGE = 500

/** Removes files that no job has: of processes that died between writing one and publishing it. Gives their number. */
export async function sweepFiles(
  { artifacts, database, clock }: Pick<VideoDependencies, 'artifacts' | 'database' | 'clock'>,
  isStopping: () => boolean,
): Promise<number> {
  let removed = 0
  let page: { name: string; id: string; attempt: number }[] = []
  const flush = async () => {
    for (const name of await findOrphans(database, page)) {
      await artifacts.remove(name)
      removed += 1
    }
    page = []
  }
  for await (const name of artifacts.list(clock.now() - YOUNG_MS)) {
    if (isStopping()) return removed
    const owner = ofArtifact(name)
    if (owner === null) continue
    page.push({ name, ...owner })
    if (page.length >= PAGE) await flush()
  }
  if (page.length > 0) await flush()
  return removed
}
