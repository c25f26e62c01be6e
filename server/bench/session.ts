/** A run of run.ts, soak.ts, streams.ts or crash.ts: a temporary folder, processes that end with the run, and a time limit. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Processes } from './processes.ts'
import type { BenchContext, Target } from './target.ts'
import { startMock } from './targetMock.ts'
import { startNginx } from './targetNginx.ts'
import { startBatchedOneHub, startOneHub } from './targetOneHub.ts'
import { startPortkey } from './targetPortkey.ts'
import { startRelay } from './targetRelay.ts'
import { startTollgate } from './targetTollgate.ts'

export const TARGET_NAMES = ['mock', 'nginx', 'relay', 'portkey', 'one-hub', 'one-hub-batched', 'tollgate'] as const
export type TargetName = (typeof TARGET_NAMES)[number]

export interface Session {
  readonly processes: Processes
  readonly folder: string
  /** Starts the mock and the named targets, in the order of {@link TARGET_NAMES}; the mock is always among them. */
  startTargets(names: readonly TargetName[], models: readonly string[], keyCount: number): Promise<Target[]>
}

/**
 * Runs `work` with fresh processes and a fresh folder, and ends both whatever happens: an error, a signal, or
 * `limitSeconds` having passed. `keep` leaves the folder (logs, data) in place and says where it is.
 */
export async function withSession(
  limitSeconds: number,
  keep: boolean,
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  // The embedded database runs as a user of its own when we are root, and has to get through.
  await chmod(folder, 0o755)
  const processes = new Processes()
  let cutShort: ((reason: Error) => void) | undefined
  const interrupted = new Promise<never>((_, reject) => {
    cutShort = reject
  })
  const onSignal = (signal: string) => cutShort?.(new Error(`stopped by ${signal}`))
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const limit = setTimeout(() => cutShort?.(new Error(`not done within ${limitSeconds} s`)), limitSeconds * 1000)
  try {
    const session = { processes, folder, startTargets: startTargets.bind(null, processes, folder) }
    await Promise.race([work(session), interrupted])
  } finally {
    clearTimeout(limit)
    await processes.stopAll()
    if (keep) console.error(`Logs and data are kept in ${folder}`)
    else await rm(folder, { recursive: true, force: true })
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}

/** {@link withSession} for a command: prints what went wrong, without a stack, and ends the process. */
export async function runCommand(
  limitSeconds: number,
  keep: boolean,
  work: (session: Session) => Promise<void>,
): Promise<never> {
  try {
    await withSession(limitSeconds, keep, work)
    process.exit(0)
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}`)
    process.exit(1)
  }
}

async function startTargets(
  processes: Processes,
  folder: string,
  names: readonly TargetName[],
  models: readonly string[],
  keyCount: number,
): Promise<Target[]> {
  const mock = await startMock(processes, folder)
  const context: BenchContext = { processes, folder, mockPort: mock.port, models, keyCount }
  const starters = {
    nginx: startNginx,
    relay: startRelay,
    portkey: startPortkey,
    'one-hub': startOneHub,
    'one-hub-batched': startBatchedOneHub,
    tollgate: startTollgate,
  }
  const targets: Target[] = [mock]
  for (const name of TARGET_NAMES) {
    if (name !== 'mock' && names.includes(name)) targets.push(await starters[name](context))
  }
  return targets
}
