/** Shows that the crash comparison sees a planted loss, and none where there is none. */
import { appendFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CrashResult, lackingCharges, runCrash } from './crashRound.ts'
import { freePort, type Processes } from './processes.ts'
import { plainTarget, settledCharges, type Target, waitUntilUp } from './target.ts'

const GATEWAY = join(import.meta.dir, 'forgetfulGateway.ts')
const LOAD = { connections: 4, seconds: 1, model: 'mock-1x0' }
const LIMIT_MS = 10_000
/** Nothing is written before the kill. */
const NEVER_MS = 3_600_000
const SOON_MS = 500

export interface LossReport {
  readonly seen: boolean
  /** The figures of each gateway, as a line. */
  readonly detail: string
}

/** Takes about five seconds. */
export async function checkLossIsSeen(processes: Processes, folder: string): Promise<LossReport> {
  const run = async (flushMs: number, quietMs: number, kill: boolean): Promise<CrashResult> => {
    const target = await startForgetful(processes, folder, flushMs)
    await settledCharges(target, quietMs)
    const result = await runCrash(processes, target, { ...LOAD, quietMs, kill })
    await target.killable?.kill()
    return result
  }
  const written = await run(0, 0, true)
  const later = await run(SOON_MS, 3 * SOON_MS, false)
  const lost = await run(NEVER_MS, 0, true)
  const none = [written, later].every((result) => result.answers > 0 && lackingCharges(result) === 0)
  const [ofLost, ofLater, ofWritten] = [lost, later, written].map(
    (result) => `${lackingCharges(result)} of ${result.answers}`,
  )
  const detail = `charges lost by a kill when books are in memory: ${ofLost}; without a kill: ${ofLater}; by a kill when they are written at once: ${ofWritten}`
  return { seen: none && lost.answers > 0 && lackingCharges(lost) === lost.answers, detail }
}

async function startForgetful(processes: Processes, folder: string, flushMs: number): Promise<Target> {
  const name = `forgetful-${flushMs}`
  const booksFile = join(folder, `${name}.books`)
  await appendFile(booksFile, '')
  const port = freePort()
  const plan = JSON.stringify({ port, booksFile, flushMs })
  const launch = () => processes.start([process.execPath, GATEWAY, plan], { logFile: join(folder, `${name}.log`) })
  let child = await launch()
  const pids = () => [child.pid]
  const plain = await plainTarget(name, port, pids)
  const chargedCalls = async () => {
    const counts = (await readFile(booksFile, 'utf8')).split('\n')
    return counts.reduce((sum, count) => sum + Number(count), 0)
  }
  const kill = async () => {
    child.kill('SIGKILL')
    await child.exited
  }
  const restart = async () => {
    child = await launch()
    await waitUntilUp(name, LIMIT_MS, async () => (await fetch(`http://127.0.0.1:${port}/`)).ok)
  }
  return { ...plain, chargedCalls, killable: { kill, restart } }
}
