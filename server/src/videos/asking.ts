/** How upstreams are asked about jobs: each question under a deadline, each failure known by its kind. */

import { DEFAULT_VIDEO_RUNNING, type VideoRunning } from '../catalog/model.ts'
import { asFailure } from '../routing/failure.ts'
import type { ImageSize, VideoWork } from '../upstream/spec.ts'
import { UpstreamFailure } from '../upstream/spec.ts'
import type { VideoDependencies } from './dependencies.ts'
import type { Submission } from './video.ts'

/** No answer about a job takes this long; taking one on may, and has the deadline of the settings. */
export const LOOK_MS = 30_000

/** How jobs of a model are run; also where the settings have it no more. */
export function runningOf({ catalog }: Pick<VideoDependencies, 'catalog'>, model: string): VideoRunning {
  const found = catalog().find(model)
  return (found.kind === 'found' ? found.model.video : undefined) ?? DEFAULT_VIDEO_RUNNING
}

/** The work of the upstream that a job was sent to; null: the settings have it no more, or it makes no videos any more. */
export function workOf({ upstream }: Pick<VideoDependencies, 'upstream'>, submission: Submission | null) {
  return submission === null ? null : (upstream(submission.upstream)?.video ?? null)
}

/** Asks within a deadline; rejects with an UpstreamFailure, or with the signal's reason. */
export function within<T>(
  { clock }: Pick<VideoDependencies, 'clock'>,
  limitMs: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  return new Promise<T>((resolve, reject) => {
    const giveUp = (reason: unknown) => {
      done()
      controller.abort(reason)
      reject(reason)
    }
    const onAbort = () => giveUp(signal.reason)
    const cancelTimer = clock.after(limitMs, () =>
      giveUp(new UpstreamFailure('timeout', `no answer within ${limitMs} ms`)),
    )
    const done = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    ask(controller.signal)
      .finally(done)
      .then(resolve, (error: unknown) => reject(signal.aborted ? signal.reason : asFailure(error)))
  })
}

/** The upstream's id of a job by our name of it; null: it has none, or can't be asked that. */
export async function findJob(
  dependencies: Pick<VideoDependencies, 'clock' | 'catalog'>,
  work: VideoWork,
  { id }: Submission,
  signal: AbortSignal,
): Promise<string | null> {
  const { connectMs } = dependencies.catalog().deadlines
  return within(dependencies, LOOK_MS, signal, async (inner) => (await work.find?.(id, inner, connectMs)) ?? null)
}

/** `<width>x<height>` as numbers. */
export function parseSize(text: string | null): ImageSize | null {
  if (text === null) return null
  const [width = 0, height = 0] = text.split('x').map(Number)
  return { width, height }
}
