/** The plan of the driver process (its one argument, as JSON) and its report (one line of JSON). */
import type { Percentiles } from './statistics.ts'

/** Where and what to call. Call number i uses `authorizations[i % length]`. */
export interface Aim {
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Values of the Authorization header; several spread the load over several keys. */
  readonly authorizations: readonly string[]
  readonly body: object
}

/** As many calls as the target answers, over a fixed number of connections. */
export interface ClosedPlan {
  readonly mode: 'closed'
  readonly aim: Aim
  readonly connections: number
  /** Calls made and not counted before the measurement starts. */
  readonly warmupSeconds: number
  /** The measurement ends after this many seconds or calls, whichever comes first. */
  readonly seconds: number
  readonly calls?: number
  /** Prints a line `{"calls":…}` each time this many are done. */
  readonly reportEvery?: number
}

/** Calls at a fixed rate, whatever the target does; latency counts from the instant a call was due. */
export interface OpenPlan {
  readonly mode: 'open'
  readonly aim: Aim
  readonly ratePerSecond: number
  /** Calls made at that rate and not counted before the measurement starts. */
  readonly warmupSeconds: number
  readonly seconds: number
  readonly maxConnections: number
}

/** Streamed calls, all open at once, started over `rampMs`, one a connection; `repeatSeconds` > 0 repeats them. */
export interface StreamsPlan {
  readonly mode: 'streams'
  readonly aim: Aim
  readonly connections: number
  readonly rampMs: number
  readonly repeatSeconds: number
  /** Streams still open after this are counted as failed. */
  readonly deadlineSeconds: number
}

export type Plan = ClosedPlan | OpenPlan | StreamsPlan

interface Outcome {
  /** Whole, good answers in the measured time. */
  readonly calls: number
  /** All answers, warm-up included: what processor time is divided by. */
  readonly allCalls: number
  readonly errors: number
  /** The first error's text, or null. */
  readonly firstError: string | null
  readonly latencyMs: Percentiles
}

export interface ClosedOutcome extends Outcome {
  readonly perSecond: number
}

export interface OpenOutcome extends Outcome {
  /** How late the driver itself was with sending: the error bar of its latencies. */
  readonly sendLagMs: Percentiles
}

export interface StreamsOutcome extends Outcome {
  /** From sending a call to the first chunk that carries text. */
  readonly firstTokenMs: Percentiles
  /** Each chunk's arrival minus the instant at which the mock provider was to send it. */
  readonly latenessMs: Percentiles
}
