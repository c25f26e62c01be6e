import type { TracedStep } from '../kernel/telemetry.ts'
import type { AttemptOutcome } from '../routing/attempt.ts'
import type { VideoDependencies } from './dependencies.ts'
import type { Video } from './video.ts'

type Means = Pick<VideoDependencies, 'clock' | 'metrics' | 'telemetry'>

/** Begins to ask an upstream something for a job; what it gives is to be called once, when that is over. */
export function beginStep(
  { clock, metrics, telemetry }: Means,
  { id, submission }: Video,
  step: TracedStep['step'],
): (outcome: AttemptOutcome) => void {
  const startedMs = clock.monotonicMs()
  return (outcome) => {
    if (submission === null) return
    const { upstream, model } = submission
    const elapsedMs = clock.monotonicMs() - startedMs
    metrics?.attempt(upstream, outcome, elapsedMs)
    telemetry?.step({ job: id, step, upstream, model, outcome, elapsedMs })
  }
}
