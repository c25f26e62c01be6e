/** Shows that the open-loop driver sees a stall: a mock that is stopped for two seconds must show in p99.9. */
import { aimAt, drive } from './drive.ts'
import type { OpenOutcome } from './plan.ts'
import type { Processes } from './processes.ts'
import { startMock } from './targetMock.ts'

const STALL_MS = 2_000
const RATE_PER_SECOND = 500
const SECONDS = 5

/** The driver's report of a target that it knows to have stood still for two seconds. */
export interface StallReport {
  readonly p999Ms: number
  /** True when the stall shows in p99.9 and in about as many calls as were due meanwhile, and none was lost. */
  readonly seen: boolean
  /** The other figures, for when the stall was not seen. */
  readonly detail: string
}

/** Takes about six seconds. */
export async function checkStallIsSeen(processes: Processes, folder: string): Promise<StallReport> {
  const mock = await startMock(processes, folder)
  const [pid] = mock.gatewayPids()
  if (pid === undefined) throw new Error('the mock has no process')
  const aim = aimAt(mock, 'mock-4x0', false)
  const pace = { ratePerSecond: RATE_PER_SECOND, warmupSeconds: 0, seconds: SECONDS }
  const plan = { mode: 'open', aim, ...pace, maxConnections: 256 } as const
  const driven = drive<OpenOutcome>(processes, mock, plan)
  await Bun.sleep(1_500)
  process.kill(pid, 'SIGSTOP')
  await Bun.sleep(STALL_MS)
  process.kill(pid, 'SIGCONT')
  const outcome = await driven
  process.kill(pid, 'SIGTERM')
  const { p999, p50 } = outcome.latencyMs
  const inTime = p999 > STALL_MS * 0.95 && p999 < STALL_MS * 1.5 && p50 < STALL_MS / 2
  const detail = `p50 ${p50.toFixed(1)} ms, ${outcome.errors} errors${outcome.firstError ? `, first: ${outcome.firstError}` : ''}`
  return { p999Ms: p999, seen: inTime && outcome.errors === 0, detail }
}
