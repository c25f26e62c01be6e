/** One round: everything that is measured of one target, once. */
import { aimAt, type Cost, drive } from './drive.ts'
import type { ClosedOutcome, OpenOutcome, StreamsOutcome } from './plan.ts'
import { type Processes, proportionalMegabytes, residentMegabytes } from './processes.ts'
import type { Target } from './target.ts'

export interface RoundOptions {
  /** Duration of each of the five measurements. */
  readonly seconds: number
  readonly connections: number
  /** The mock model for all measurements but the first token's, such as `mock-4x0`. */
  readonly wholeModel: string
  /** The mock model for the first token, with a pace, such as `mock-4x2`. */
  readonly streamModel: string
  /** Calls a second in the open loop; undefined: half of what the target did in the closed loop, up to a bound. */
  readonly openRate: number | undefined
}

export interface RoundResult {
  readonly target: string
  /** Closed loop at `connections`. */
  readonly perSecond: number
  readonly cost: Cost
  readonly busyP50: number
  readonly busyP99: number
  /** Closed loop at `connections`, answers as streams. */
  readonly streamedPerSecond: number
  /** Closed loop at one connection, milliseconds. */
  readonly singleP50: number
  /** To the first streamed token at one connection, milliseconds. */
  readonly firstTokenP50: number
  readonly openRate: number
  /** Open loop, milliseconds. */
  readonly openP50: number
  readonly openP99: number
  readonly openP999: number
  /** The driver's own lateness in the open loop, p99. */
  readonly sendLagP99: number
  readonly residentMegabytes: number
  readonly databaseMegabytes: number
  readonly answers: number
  readonly errors: number
  readonly firstError: string | null
}

const WARMUP_SECONDS = 1
const OPEN_CONNECTIONS_MAX = 512
/** Calls a second. Beyond that the driver and the mock fill the machine, and the open loop would measure them. */
const OPEN_RATE_MAX = 15_000

/** Runs the target hot before the first round: a compiler that is still at work is no property of the gateway. */
export async function warmUp(
  processes: Processes,
  target: Target,
  options: RoundOptions,
  seconds: number,
): Promise<void> {
  const aim = aimAt(target, options.wholeModel, false)
  const plan = { mode: 'closed', aim, connections: options.connections, warmupSeconds: 0, seconds } as const
  await drive<ClosedOutcome>(processes, target, plan)
}

export async function runRound(processes: Processes, target: Target, options: RoundOptions): Promise<RoundResult> {
  const { seconds, connections } = options
  const whole = aimAt(target, options.wholeModel, false)
  const streamed = aimAt(target, options.streamModel, true)
  const closed = { mode: 'closed', aim: whole, warmupSeconds: WARMUP_SECONDS, seconds } as const
  const busy = await drive<ClosedOutcome>(processes, target, { ...closed, connections })
  const streamedPlan = { ...closed, aim: aimAt(target, options.wholeModel, true), connections }
  const busyStreamed = await drive<ClosedOutcome>(processes, target, streamedPlan)
  const single = await drive<ClosedOutcome>(processes, target, { ...closed, connections: 1 })
  const first = await drive<StreamsOutcome>(processes, target, {
    mode: 'streams',
    aim: streamed,
    connections: 1,
    rampMs: 0,
    repeatSeconds: seconds,
    deadlineSeconds: seconds + 10,
  })
  const openRate = options.openRate ?? Math.max(1, Math.round(Math.min(busy.perSecond / 2, OPEN_RATE_MAX)))
  const open = await drive<OpenOutcome>(processes, target, {
    mode: 'open',
    aim: whole,
    ratePerSecond: openRate,
    warmupSeconds: WARMUP_SECONDS,
    seconds,
    maxConnections: OPEN_CONNECTIONS_MAX,
  })
  const parts = [busy, busyStreamed, single, first, open]
  return {
    target: target.name,
    perSecond: busy.perSecond,
    cost: busy.cost,
    busyP50: busy.latencyMs.p50,
    busyP99: busy.latencyMs.p99,
    streamedPerSecond: busyStreamed.perSecond,
    singleP50: single.latencyMs.p50,
    firstTokenP50: first.firstTokenMs.p50,
    openRate,
    openP50: open.latencyMs.p50,
    openP99: open.latencyMs.p99,
    openP999: open.latencyMs.p999,
    sendLagP99: open.sendLagMs.p99,
    residentMegabytes: residentMegabytes(target.gatewayPids()),
    databaseMegabytes: proportionalMegabytes(target.databasePids()),
    answers: parts.reduce((sum, part) => sum + part.allCalls, 0),
    errors: parts.reduce((sum, part) => sum + part.errors, 0),
    firstError: parts.find((part) => part.firstError !== null)?.firstError ?? null,
  }
}
