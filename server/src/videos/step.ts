import type { TracedStep } from '../lib/telemetry.ts'
import type { AttemptOutcome } from '../routing/attempt.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video } from './job/video.ts'

type Means = Pick<VideoDependencies, 'clock' | 'metrics' | 'telemetry'>

/** Begins to ask a provider something for a job; what it gives is to be called once, when that is over. */
export function beginStep(
  { clock, metrics, telemetry }: Means,
  { id, submission }: Video,
  step: TracedStep['step'],
): (outcome: AttemptOutcome) => void {
  const startedMs = clock.monotonicMs()
  return (outcome) => {
    if (submission === null) return
    const { provider, model } = submission
    const elapsedMs = clock.monotonicMs() - startedMs
    metrics?.attempt(provider, outcome, elapsedMs)
    telemetry?.step({ job: id, step, provider, model, outcome, elapsedMs })
  }
}
