import { spawn } from 'node:child_process'
import { chmod, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { type Failure, type Report, readReports } from './failures.ts'
import { endLeftovers } from './leftovers.ts'

/** The characters that are kept of a file's output: its end. */
const OUTPUT_CHARACTERS = 200_000

export interface FileRun {
  /** From the checkout's root, such as `server/src/identity/keys/key.test.ts`. */
  readonly file: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly seconds: number
  readonly output: string
  /** One for each failed test, and one with an empty name for what is wrong with the file as a whole. */
  readonly failures: readonly Failure[]
  /** It was ended at its limit. */
  readonly late: boolean
}

export interface FileOptions {
  readonly checkout: string
  /** Made for this file and removed after it: its TMPDIR, by which its processes are known too. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** After this long the file is ended and counts as failed. */
  readonly limitMs: number
  /** How long its processes may go on after it has ended; left out: `GRACE_MS`. */
  readonly graceMs?: number
}

/** A database that was told to stop at once is still ending when its test has ended. */
const GRACE_MS = 10_000

/** Process groups of the files that run now, so that an interrupted run can end them. */
export type Running = Set<number>

/**
 * Far beyond the time that any test takes: a machine under load must not fail one. A test that hangs is named by it
 * all the same.
 */
export const TEST_LIMIT_MS = 60_000

/**
 * Runs one test file in a process of its own: a crash, a leaked timer or a turned global of one file reaches no other.
 * A file that leaves processes behind fails, and so does one that has no test in it.
 */
export async function runFile(file: string, running: Running, options: FileOptions): Promise<FileRun> {
  const startedAtMs = systemClock.monotonicMs()
  const { reports, leftovers, ...ended } = await runProcess([file], running, options)
  const { passed, failed, skipped, failures } = reports[0] ?? { passed: 0, failed: 0, skipped: 0, failures: [] }
  const { late } = ended
  const seconds = (systemClock.monotonicMs() - startedAtMs) / 1_000
  const wrong = wrongWithTheFile({ ...ended, failed, tests: passed + failed + skipped, leftovers }, options)
  return {
    file,
    passed,
    failed: failed + wrong.length,
    skipped,
    seconds,
    output: [ended.output, ...wrong].join('\n'),
    failures: [...failures, ...wrong.map((message) => ({ name: [], message }))],
    late,
  }
}

interface ProcessRun extends Ended {
  readonly reports: readonly Report[]
  /** Command lines of the processes that it left behind. */
  readonly leftovers: readonly string[]
}

/** Runs test files in one process, with a TMPDIR that is removed after it. */
export async function runProcess(
  files: readonly string[],
  running: Running,
  options: FileOptions,
): Promise<ProcessRun> {
  const { folder } = options
  await mkdir(folder, { recursive: true })
  // As root, the embedded database runs as a user who must be able to pass.
  await chmod(folder, 0o711)
  const report = join(folder, 'report.xml')
  const how = ['--only-failures', `--timeout=${TEST_LIMIT_MS}`, '--reporter=junit', `--reporter-outfile=${report}`]
  const args = ['test', ...how, ...files.map((file) => `./${file}`)]
  const ended = await spawnAndWait(args, running, options)
  const reports = readReports(await readFile(report, 'utf8').catch(() => ''))
  const leftovers = await endLeftovers(folder, options.graceMs ?? GRACE_MS)
  await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  return { ...ended, reports, leftovers }
}

interface Ended {
  readonly code: number | null
  readonly output: string
  readonly late: boolean
}

/** How many last lines of a file's output are said again when no test of it failed by name. */
const LAST_LINES = 8

/** Returns the faults of a file beside tests that failed by name. */
function wrongWithTheFile(
  ended: Ended & { readonly failed: number; readonly tests: number; readonly leftovers: readonly string[] },
  { limitMs }: FileOptions,
): string[] {
  const { code, output, late, failed, tests, leftovers } = ended
  const wrong: string[] = []
  if (late) wrong.push(`ended after ${limitMs / 1_000} s: a test hangs, or its own limit is too long`)
  // A file that can't be loaded, or a crash, fails no test by name.
  else if (code !== 0 && failed === 0) {
    const said = output.trimEnd().split('\n').slice(-LAST_LINES)
    wrong.push([`ended with code ${code}:`, ...said].join('\n'))
  }
  // A file that was emptied, or whose tests are behind a condition, must not look like one that holds.
  if (code === 0 && tests === 0) wrong.push('has no test in it: write one, or remove the file')
  if (leftovers.length > 0) wrong.push(['left processes behind; end them in afterAll:', ...leftovers].join('\n  '))
  return wrong
}

function spawnAndWait(
  args: readonly string[],
  running: Running,
  { checkout, folder, environment, limitMs }: FileOptions,
): Promise<Ended> {
  const child = spawn(process.execPath, args, {
    cwd: checkout,
    // A group of its own, so that all of it can be ended at once.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...environment, TMPDIR: folder },
  })
  const group = child.pid
  if (group !== undefined) running.add(group)
  let output = ''
  let late = false
  const keep = (data: Buffer) => {
    output = (output + data.toString()).slice(-OUTPUT_CHARACTERS)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const cancelTimer = systemClock.after(limitMs, () => {
    late = true
    endGroup(group)
  })
  return new Promise((resolve) => {
    child.once('error', (error) => keep(Buffer.from(String(error))))
    // Not 'close': a process left behind may keep the pipes open.
    child.once('exit', (code) => {
      cancelTimer()
      endGroup(group)
      if (group !== undefined) running.delete(group)
      resolve({ code, output, late })
    })
  })
}

/** Ends every process of a group. */
export function endGroup(group: number | undefined): void {
  if (group === undefined) return
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // All of them have ended.
  }
}
