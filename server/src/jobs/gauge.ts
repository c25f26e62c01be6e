import type { LabelledGauge } from '../lib/gauge.ts'
import type { Runner } from './runner.ts'

/** Returns the gauge of what a runner works on. Those of several runners are shown as one metric. */
export function inWorkGauge(runner: Pick<Runner, 'inWork'>): LabelledGauge {
  return {
    name: 'tollgate_jobs_in_work',
    help: 'Items of background work that this process works on.',
    labelNames: ['kind'],
    readEach: () => [...runner.inWork()].map(([kind, count]) => [{ kind }, count] as const),
  }
}
