/** Runs the suites of `npm run test:long`, one after the other, since they measure real time. */

import type { Clock } from '../../src/lib/time.ts'
import type { Outcome } from './gate.ts'
import type { FileRun } from './runFile.ts'

/** For how many seconds a suite with seeds goes on trying new ones: its share of the run's minutes. */
export const LONG_SECONDS_VARIABLE = 'TOLLGATE_LONG_SECONDS'
/** A suite that uses this helper has seeds, and takes a share of the time. */
const SHARING = /\bfreshSeeds\(/
/** However little is left, a suite tries some seeds. */
const LEAST_SHARE_SECONDS = 30
/**
 * The time that a suite may take beyond its share: starting servers, the last seed, stopping. More than suites allow
 * themselves.
 */
const SLACK_SECONDS = 240
/** For a suite that takes as long as it takes. */
const FIXED_LIMIT_SECONDS = 300

export interface LongOptions {
  /** For all suites together. Those that have no seeds are not cut short. */
  readonly minutes: number
  readonly textOf: (path: string) => string
  readonly run: (file: string, limitMs: number, environment: Readonly<Record<string, string>>) => Promise<FileRun>
  readonly report: (run: FileRun, tries: number) => void
  readonly clock: Clock
}

/** Suites without seeds come first; the others share what is left of the minutes. No suite is repeated. */
export async function runLong(files: readonly string[], options: LongOptions): Promise<Outcome> {
  const { minutes, textOf, run, report, clock } = options
  const endsAtMs = clock.monotonicMs() + minutes * 60_000
  const sharing = files.filter((file) => SHARING.test(textOf(file)))
  const fixed = files.filter((file) => !sharing.includes(file))
  const runs: FileRun[] = []
  for (const file of [...fixed, ...sharing]) {
    const left = files.length - Math.max(runs.length, fixed.length)
    const share = Math.max(LEAST_SHARE_SECONDS, Math.floor((endsAtMs - clock.monotonicMs()) / 1_000 / left))
    const limitSeconds = fixed.includes(file) ? FIXED_LIMIT_SECONDS : share + SLACK_SECONDS
    const ended = await run(file, limitSeconds * 1_000, { [LONG_SECONDS_VARIABLE]: `${share}` })
    runs.push(ended)
    report(ended, 1)
  }
  return { runs, unstable: [] }
}
