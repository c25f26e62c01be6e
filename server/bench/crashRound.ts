/** One round of the crash comparison: load, a SIGKILL of the gateway, a restart, and what its books have then. */
import { aimAt, drive } from './drive.ts'
import type { ClosedOutcome } from './plan.ts'
import type { Processes } from './processes.ts'
import { settledCharges, type Target } from './target.ts'

export interface CrashOptions {
  /** Half of them ask for whole answers, half for streamed ones. */
  readonly connections: number
  /** Of load, until the kill. */
  readonly seconds: number
  readonly model: string
  /** The books are read once they have not changed for this long. */
  readonly quietMs: number
  /** False: the load ends by itself and the gateway runs on, which is what the round with a kill is held against. */
  readonly kill: boolean
}

export interface CrashResult {
  readonly target: string
  readonly killed: boolean
  /** Whole answers that the clients received. */
  readonly answers: number
  /** Charges in the books, of the time of this round. */
  readonly charges: number
  /** Calls in its log, of that time; undefined where there is no log beside the books. */
  readonly logged: number | undefined
  /** Of load. */
  readonly seconds: number
}

/** The load of a round with a kill goes on past the kill until its connections fail; this only bounds it. */
const LOAD_MARGIN_SECONDS = 30

/** The books must stand still before. @throws when the target fails calls by itself. */
export async function runCrash(processes: Processes, target: Target, options: CrashOptions): Promise<CrashResult> {
  const { killable } = target
  if (killable === undefined) throw new Error(`${target.name} can't be killed and started again`)
  const { seconds, quietMs, kill } = options
  const before = await readBooks(target, 0)
  const load = startLoad(processes, target, options)
  if (kill) {
    const failed = load.then(({ firstError }) => {
      throw new Error(`${target.name} failed before the kill: ${firstError ?? 'the load ended'}`)
    })
    await Promise.race([Bun.sleep(seconds * 1000), failed])
    await killable.kill()
  }
  const { answers, errors, firstError } = await load
  // A gateway that is gone answers nothing: what has a status is a failure of its own.
  if (firstError !== null && (!kill || firstError.startsWith('status'))) {
    throw new Error(`${target.name}: ${errors} errors that no kill explains, first: ${firstError}`)
  }
  if (kill) await killable.restart()
  const after = await readBooks(target, quietMs)
  const logged = after.logged === undefined || before.logged === undefined ? undefined : after.logged - before.logged
  return { target: target.name, killed: kill, answers, charges: after.charged - before.charged, logged, seconds }
}

async function readBooks(target: Target, quietMs: number): Promise<{ charged: number; logged: number | undefined }> {
  const charged = await settledCharges(target, quietMs)
  return { charged, logged: await target.loggedCalls?.() }
}

interface Load {
  readonly answers: number
  readonly errors: number
  readonly firstError: string | null
}

/** Both kinds of calls at once, each from a driver of its own. */
async function startLoad(processes: Processes, target: Target, options: CrashOptions): Promise<Load> {
  const { connections, model, kill } = options
  const seconds = options.seconds + (kill ? LOAD_MARGIN_SECONDS : 0)
  const outcomes = await Promise.all(
    [false, true].map((stream) => {
      const share = stream ? Math.floor(connections / 2) : Math.ceil(connections / 2)
      const plan = { mode: 'closed', aim: aimAt(target, model, stream), connections: share } as const
      return drive<ClosedOutcome>(processes, target, { ...plan, warmupSeconds: 0, seconds })
    }),
  )
  return {
    answers: outcomes.reduce((sum, outcome) => sum + outcome.allCalls, 0),
    errors: outcomes.reduce((sum, outcome) => sum + outcome.errors, 0),
    firstError: outcomes.find((outcome) => outcome.firstError !== null)?.firstError ?? null,
  }
}

/** Answers without a charge. Calls that the kill cut off may be charged too, and hide as many. */
export function lackingCharges({ answers, charges }: CrashResult): number {
  return Math.max(0, answers - charges)
}
