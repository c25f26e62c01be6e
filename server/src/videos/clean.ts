import { SECOND_MS } from '../kernel/time.ts'
import { asFailure } from '../routing/failure.ts'
import { findJob, LOOK_MS, within, workOf } from './asking.ts'
import type { VideoDependencies } from './dependencies.ts'
import { forgetArtifact, noteLooked } from './store.ts'
import type { Video } from './video.ts'

/** So often an upstream is told that a job is wanted no more; a minute apart at the end. */
const TELLS_MOST = 10
const TELL_LATEST_MS = 60 * SECOND_MS

/** Ends the upstream's work on a job that is over. */
export async function tellUpstream(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { database, clock, log } = dependencies
  const { submission, misses } = video
  try {
    const work = workOf(dependencies, submission)
    if (work !== null && submission !== null) {
      const job = video.upstreamJob ?? (await findJob(dependencies, work, submission, signal))
      const { connectMs } = dependencies.catalog().deadlines
      if (job !== null) await within(dependencies, LOOK_MS, signal, (inner) => work.cancel(job, inner, connectMs))
    }
    await noteLooked(database, video, { progress: null, missed: false, dueAtMs: null })
  } catch (error) {
    if (signal.aborted) throw error
    const isLast = misses + 1 >= TELLS_MOST
    const detail = asFailure(error).message
    log.warn(
      { video: video.id, upstream: submission?.upstream, detail, isLast },
      'an upstream could not be told to stop',
    )
    const waitMs = Math.min(SECOND_MS * 2 ** misses, TELL_LATEST_MS)
    await noteLooked(database, video, { progress: null, missed: true, dueAtMs: isLast ? null : clock.now() + waitMs })
  }
}

/** Removes the file of a job whose time is over. */
export async function removeFile({ artifacts, database }: VideoDependencies, video: Video): Promise<void> {
  if (video.artifact !== null) await artifacts.remove(video.artifact)
  await forgetArtifact(database, video)
}
