import { SECOND_MS } from '../kernel/time.ts'
import type { VideoDependencies } from './dependencies.ts'
import { renewLease } from './store.ts'
import type { Video } from './video.ts'

/** A job that nobody has said anything of for so long is another's to take up: its process is dead, or as good as that. */
export const LEASE_MS = 30 * SECOND_MS
const RENEW_MS = 10 * SECOND_MS

/** Why work on a job is to end: it is over, or another process has taken it up. */
const LOST = new Error('the job is not this one’s any more')

/**
 * Works on a job that was taken up, keeping others off it for as long as that takes. The signal ends when the job is
 * cancelled or another's meanwhile, or with `stopping`; then somebody else may take it up at once. What the signal ended is no
 * failure.
 */
export async function leased(
  { database, clock, log }: Pick<VideoDependencies, 'database' | 'clock' | 'log'>,
  video: Video,
  stopping: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const own = new AbortController()
  let cancelTimer = () => {}
  const renew = async () => {
    try {
      if (!(await renewLease(database, video, clock.now() + LEASE_MS))) own.abort(LOST)
    } catch (error) {
      log.warn({ err: error, video: video.id }, 'the lease of a video could not be renewed')
    }
    if (!own.signal.aborted) arm()
  }
  const arm = () => {
    cancelTimer = clock.after(RENEW_MS, () => void renew())
  }
  const onStop = () => own.abort(stopping.reason)
  stopping.addEventListener('abort', onStop, { once: true })
  arm()
  try {
    await work(own.signal)
  } catch (error) {
    if (!own.signal.aborted) throw error
    // What was being sent is left until its lease is over: its upstream may get to it only now.
    if (stopping.aborted && video.status !== 'submitting') await renewLease(database, video, clock.now())
  } finally {
    own.abort(LOST)
    cancelTimer()
    stopping.removeEventListener('abort', onStop)
  }
}
