/** How providers are asked about jobs: each question under a deadline, each failure known by its kind. */

import { DEFAULT_VIDEO_RUNNING, type VideoRunning } from '../catalog/model.ts'
import type { ImageSize, VideoWork } from '../providers/dialect/spec.ts'
import { ProviderFailure } from '../providers/dialect/spec.ts'
import { askUntil } from '../routing/askUntil.ts'
import { asFailure } from '../routing/failure.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Submission } from './job/video.ts'

/** No answer about a job takes this long; taking one on may, and has the deadline of the settings. */
export const LOOK_MS = 30_000

/** Returns how a model's jobs run; the defaults if the model has left the settings. */
export function runningOf({ catalog }: Pick<VideoDependencies, 'catalog'>, model: string): VideoRunning {
  const found = catalog().find(model)
  return (found.kind === 'found' ? found.model.video : undefined) ?? DEFAULT_VIDEO_RUNNING
}

/** The work of the provider that a job was sent to; null: the settings have it no more, or it makes no videos any more. */
export function workOf({ provider }: Pick<VideoDependencies, 'provider'>, submission: Submission | null) {
  return submission === null ? null : (provider(submission.provider)?.video ?? null)
}

/** Asks within a deadline; rejects with a ProviderFailure, or with the signal's reason. */
export function askWithin<T>(
  { clock }: Pick<VideoDependencies, 'clock'>,
  limitMs: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = () => new ProviderFailure('timeout', `no answer within ${limitMs} ms`)
  return askUntil({ clock, signal, limitMs, late }, ask).catch((error: unknown) => {
    throw signal.aborted ? signal.reason : asFailure(error)
  })
}

/** The provider's id of a job by our name of it; null: it has none, or can't be asked that. */
export async function findJob(
  dependencies: Pick<VideoDependencies, 'clock' | 'catalog'>,
  work: VideoWork,
  { id }: Submission,
  signal: AbortSignal,
): Promise<string | null> {
  const { connectMs } = dependencies.catalog().deadlines
  return askWithin(dependencies, LOOK_MS, signal, async (inner) => (await work.find?.(id, inner, connectMs)) ?? null)
}

/** `<width>x<height>` as numbers. */
export function parseSize(text: string | null): ImageSize | null {
  if (text === null) return null
  const [width = 0, height = 0] = text.split('x').map(Number)
  return { width, height }
}
