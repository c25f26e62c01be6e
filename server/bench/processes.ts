/** Starts the bench's processes and ends exactly those, and reads what they use from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Subprocess } from 'bun'

/** Kernel ticks in a second, as /proc reports processor time: 100 on every Linux that Bun runs on. */
const TICKS_PER_SECOND = 100
const STOP_LIMIT_MS = 20_000

export interface StartOptions {
  readonly cwd?: string
  /** On top of our own environment; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** File for stdout and stderr together. */
  readonly logFile: string
}

/** All processes of one run. `stopAll` is safe to call at any time and more than once. */
export class Processes {
  readonly #running = new Map<number, Subprocess>()
  #stopping = false
  readonly #afterwards: (() => Promise<void>)[] = []

  /** Starts a server that runs until it is stopped. */
  async start(command: readonly string[], options: StartOptions): Promise<Subprocess> {
    const log = await open(options.logFile, 'a')
    this.#refuseWhileStopping()
    const env = { ...process.env, ...options.env }
    const cwd = options.cwd ?? process.cwd()
    const child = Bun.spawn([...command], { cwd, env, stdin: 'ignore', stdout: log.fd, stderr: log.fd })
    this.#running.set(child.pid, child)
    child.exited.finally(() => {
      this.#running.delete(child.pid)
      void log.close()
    })
    return child
  }

  /** Runs a command to its end and returns its stdout; `onLine` sees each line as it comes. Throws when it fails. */
  async run(
    command: readonly string[],
    limitSeconds: number,
    options: { cwd?: string; onLine?: (line: string) => void } = {},
  ): Promise<string> {
    this.#refuseWhileStopping()
    const cwd = options.cwd ?? process.cwd()
    const child = Bun.spawn([...command], { cwd, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
    this.#running.set(child.pid, child)
    const limit = setTimeout(() => child.kill('SIGKILL'), limitSeconds * 1000)
    const failureText = new Response(child.stderr).text()
    try {
      const output = await readLines(child.stdout, options.onLine)
      const code = await child.exited
      if (code === 0) return output
      throw new Error(`${command.slice(0, 3).join(' ')} ended with ${code}: ${(await failureText).slice(-2000)}`)
    } finally {
      clearTimeout(limit)
      this.#running.delete(child.pid)
    }
  }

  /** Work that was cut short may not have noticed yet; nothing that it starts now would be ended. */
  #refuseWhileStopping(): void {
    if (this.#stopping) throw new Error('the run is ending: no process is started any more')
  }

  /** Has `work` done once all processes have ended, for what one of them may have left behind. It must not throw. */
  afterwards(work: () => Promise<void>): void {
    this.#afterwards.push(work)
  }

  /** SIGTERM, then SIGKILL for what has not ended in time. */
  async stopAll(): Promise<void> {
    this.#stopping = true
    await Promise.all([...this.#running.values()].map(stop))
    for (const work of this.#afterwards.splice(0)) await work()
  }
}

async function stop(child: Subprocess): Promise<void> {
  child.kill('SIGTERM')
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await child.exited
  clearTimeout(killer)
}

async function readLines(stream: ReadableStream<Uint8Array>, onLine?: (line: string) => void): Promise<string> {
  const decoder = new TextDecoder()
  let all = ''
  let reported = 0
  for await (const piece of stream) {
    all += decoder.decode(piece, { stream: true })
    for (let end = all.indexOf('\n', reported); end >= 0; end = all.indexOf('\n', reported)) {
      onLine?.(all.slice(reported, end))
      reported = end + 1
    }
  }
  return all
}

/** A process and its living descendants. */
export function processTree(rootPid: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = Number(statFields(Number(name))?.[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const tree = [rootPid]
  for (let index = 0; index < tree.length; index++) tree.push(...(children.get(tree[index] ?? 0) ?? []))
  return tree
}

/** Seconds of processor time, user and system, that these processes and their ended children have used so far. */
export function cpuSeconds(pids: readonly number[]): number {
  let ticks = 0
  for (const pid of pids) {
    const fields = statFields(pid)
    if (fields !== undefined) for (const field of fields.slice(11, 15)) ticks += Number(field)
  }
  return ticks / TICKS_PER_SECOND
}

/** Resident memory in MB (1e6 bytes), shared pages of each process counted in full. */
export function residentMegabytes(pids: readonly number[]): number {
  return sumMegabytes(pids, 'status', /^VmRSS:\s+(\d+)/m)
}

/** Memory in MB with pages that several processes share counted once: PostgreSQL's buffers are in all of its processes. */
export function proportionalMegabytes(pids: readonly number[]): number {
  return sumMegabytes(pids, 'smaps_rollup', /^Pss:\s+(\d+)/m)
}

function sumMegabytes(pids: readonly number[], file: string, pattern: RegExp): number {
  const kilobytes = pids.map((pid) => Number(pattern.exec(readProcess(pid, file) ?? '')?.[1] ?? 0))
  return (kilobytes.reduce((sum, value) => sum + value, 0) * 1024) / 1e6
}

/** The fields of /proc/<pid>/stat after the name: [0] state, [1] parent, [11] to [14] processor time. */
function statFields(pid: number): string[] | undefined {
  const text = readProcess(pid, 'stat')
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')
}

function readProcess(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return undefined
  }
}

/** A loopback port that is free now. */
export function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}
