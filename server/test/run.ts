/**
 * `npm test` and `npm run test:long`: runs the test files, each in a process of its own, over one throw-away PostgreSQL.
 * Without `--long` all `*.test.ts` but the long ones, two at a time; with it the `*.long.test.ts`, which measure real
 * time, one after the other. Other arguments choose files by a part of their path. The last lines say how many seeds ran,
 * how long it took, and `N passed, N failed`.
 */

import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../src/io/clock.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './postgres.ts'
import { endGroup, type FileRun, type Running, runFile } from './runFile.ts'

const CHECKOUT = join(import.meta.dirname, '../..')
/** One for each core of the smallest machine that the project is built for. */
const AT_ONCE = 2
const FILE_LIMIT_MS = 300_000

/** Of `test:long`, all suites together: for as long as this, suites with seeds go on trying new ones. */
const LONG_SECONDS_VARIABLE = 'TOLLGATE_LONG_SECONDS'
const LONG_SECONDS_PRESET = 1_500
/** However little is left, a suite tries some seeds. */
const LEAST_SHARE_SECONDS = 30
/** However long they would take: with the installation before them they end within 45 minutes. */
const LONG_LIMIT_SECONDS = 2_580
/** What a suite may take beyond its share: starting servers, the last seed, stopping. More than suites allow themselves. */
const LONG_SLACK_SECONDS = 240

/** A suite says how many seeds it tried by a line `seeds: N`, with whatever helps to repeat one after it. */
const SEEDS_LINE = /^\s*seeds: (\d+).*$/gm

const isLong = process.argv.includes('--long')
const wanted = process.argv.slice(2).filter((argument) => argument !== '--long')
const startedAtMs = systemClock.monotonicMs()
const secondsSoFar = () => (systemClock.monotonicMs() - startedAtMs) / 1_000
const running: Running = new Set()

async function findFiles(): Promise<string[]> {
  const files: string[] = []
  for await (const file of new Bun.Glob('server/**/*.test.ts').scan(CHECKOUT)) {
    if (file.includes('node_modules') || file.endsWith('.long.test.ts') !== isLong) continue
    if (wanted.length === 0 || wanted.some((part) => file.includes(part))) files.push(file)
  }
  // The slow ones, whole gateways and kills, are in server/test: first, so that none is left alone at the end.
  return files.sort().reverse()
}

const OPERATORS_OWN = ['DATABASE_URL', 'REDIS_URL']

/** What tests see of the environment: nothing that an operator has set for a Tollgate of their own. */
function environmentOf(postgresUrl: string): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('TOLLGATE_') && !OPERATORS_OWN.includes(name),
  )
  return { ...Object.fromEntries(kept), [TEST_POSTGRES_VARIABLE]: postgresUrl }
}

async function runShort(files: readonly string[], folder: string, environment: Record<string, string | undefined>) {
  const runs: FileRun[] = []
  const queue = [...files.entries()]
  const work = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [index, file] = next
      const options = { checkout: CHECKOUT, folder: join(folder, `${index}`), environment, limitMs: FILE_LIMIT_MS }
      const run = await runFile(file, running, options)
      runs.push(run)
      report(run, runs.length, files.length)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return runs
}

/** Suites that take as long as it takes come first; the others share what is left of the seconds. */
async function runLong(files: readonly string[], folder: string, environment: Record<string, string | undefined>) {
  const totalSeconds = Number(process.env[LONG_SECONDS_VARIABLE] || LONG_SECONDS_PRESET)
  if (!(totalSeconds > 0)) throw new Error(`${LONG_SECONDS_VARIABLE} must be a number of seconds`)
  const texts = await Promise.all(files.map((file) => readFile(join(CHECKOUT, file), 'utf8')))
  const sharing = files.filter((_, index) => texts[index]?.includes(LONG_SECONDS_VARIABLE))
  const fixed = files.filter((file) => !sharing.includes(file))
  const runs: FileRun[] = []
  for (const file of [...fixed, ...sharing]) {
    const left = files.length - Math.max(runs.length, fixed.length)
    const share = Math.max(LEAST_SHARE_SECONDS, Math.floor((totalSeconds - secondsSoFar()) / left))
    const most = fixed.includes(file) ? FILE_LIMIT_MS / 1_000 : share + LONG_SLACK_SECONDS
    const limitMs = Math.max(1, Math.min(most, LONG_LIMIT_SECONDS - secondsSoFar())) * 1_000
    const own = { ...environment, [LONG_SECONDS_VARIABLE]: String(share) }
    const options = { checkout: CHECKOUT, folder: join(folder, `${runs.length}`), environment: own, limitMs }
    const run = await runFile(file, running, options)
    runs.push(run)
    report(run, runs.length, files.length)
  }
  return runs
}

function report(run: FileRun, done: number, all: number): void {
  const { file, passed, failed, skipped, seconds, output } = run
  const counts = [
    `${passed} passed`,
    ...(failed > 0 ? [`${failed} FAILED`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ]
  console.log(`[${done}/${all}] ${file}: ${counts.join(', ')} in ${seconds.toFixed(1)} s`)
  if (failed > 0) console.log(`${output.trimEnd()}\n`)
  else for (const [line] of output.matchAll(SEEDS_LINE)) console.log(`  ${line.trim()}`)
}

function summarize(runs: readonly FileRun[]): boolean {
  const sum = (pick: (run: FileRun) => number) => runs.reduce((total, run) => total + pick(run), 0)
  const bad = runs.filter(({ failed }) => failed > 0)
  console.log('')
  for (const { file, failed } of bad) console.log(`FAILED: ${file} (${failed})`)
  const skipped = sum((run) => run.skipped)
  if (skipped > 0) console.log(`${skipped} skipped`)
  const seeds = sum((run) => [...run.output.matchAll(SEEDS_LINE)].reduce((total, match) => total + Number(match[1]), 0))
  if (seeds > 0) console.log(`${seeds} seeds`)
  console.log(`${runs.length} files in ${secondsSoFar().toFixed(0)} seconds`)
  console.log(`${sum((run) => run.passed)} passed, ${sum((run) => run.failed)} failed`)
  return bad.length === 0
}

async function main(): Promise<boolean> {
  const files = await findFiles()
  if (files.length === 0) throw new Error(`no test file has ${wanted.join(' or ')} in its path`)
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-run-'))
  await chmod(folder, 0o711)
  const postgres = await startTestPostgres()
  let interrupted = false
  const interrupt = () => {
    interrupted = true
    for (const group of running) endGroup(group)
    void postgres.stop().then(() => process.exit(130))
  }
  process.on('SIGINT', interrupt)
  process.on('SIGTERM', interrupt)
  try {
    const environment = environmentOf(postgres.url)
    const runs = await (isLong ? runLong : runShort)(files, folder, environment)
    return summarize(runs) && !interrupted
  } finally {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

process.exit((await main()) ? 0 : 1)
