import { doubledMs } from '../lib/backoff.ts'
import { SECOND_MS } from '../lib/time.ts'
import { asFailure } from '../routing/failure.ts'
import { askWithin, findJob, LOOK_MS, workOf } from './asking.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video } from './job/video.ts'
import { forgetArtifact, noteLooked } from './store.ts'

/** So often a provider is told that a job is wanted no more; a minute apart at the end. */
const TELLS_MOST = 10
const TELL_LATEST_MS = 60 * SECOND_MS

/** Ends the provider's work on a job that is over. */
export async function tellProvider(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { database, clock, log } = dependencies
  const { submission, misses } = video
  try {
    const work = workOf(dependencies, submission)
    if (work !== null && submission !== null) {
      const job = video.providerJob ?? (await findJob(dependencies, work, submission, signal))
      const { connectMs } = dependencies.catalog().deadlines
      if (job !== null) await askWithin(dependencies, LOOK_MS, signal, (inner) => work.cancel(job, inner, connectMs))
    }
    await noteLooked(database, video, { progress: null, missed: false, dueAtMs: null })
  } catch (error) {
    if (signal.aborted) throw error
    const isLast = misses + 1 >= TELLS_MOST
    const detail = asFailure(error).message
    log.warn(
      { video: video.id, provider: submission?.provider, detail, isLast },
      'a provider could not be told to stop',
    )
    const waitMs = doubledMs(SECOND_MS, TELL_LATEST_MS, misses)
    await noteLooked(database, video, { progress: null, missed: true, dueAtMs: isLast ? null : clock.now() + waitMs })
  }
}

/** Removes the file of a job whose time is over. */
export async function removeFile({ artifacts, database }: VideoDependencies, video: Video): Promise<void> {
  if (video.artifact !== null) await artifacts.remove(video.artifact)
  await forgetArtifact(database, video)
}
