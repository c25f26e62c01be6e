/**
 * Runs tests, each file in a process of its own, over one throw-away PostgreSQL:
 *
 * - `run.ts [WORD …]`: all of `npm test`, or the files with one of the words in their path.
 * - `run.ts --long [--minutes N] [--all] [WORD …]`: the `*.long.test.ts`, which take real time and fresh seeds. Suites with
 *   seeds share N minutes. A suite whose program or package can't be had is skipped; with `--all` that is a failure.
 * - `run.ts --packages`: prints the Debian packages that `npm test` needs and this machine lacks.
 *
 * With CI=true a missing program is a failure. The last lines say what failed, how to repeat it, and
 * `N passed, N failed, N skipped`.
 */

import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { systemClock } from '../src/infra/clock.ts'
import { MIGRATED_CLUSTER_VARIABLE, makeMigratedCluster } from './migratedCluster.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from './postgres.ts'
import { type Closures, findTests, readClosures } from './runner/closure.ts'
import { type Outcome, runGate } from './runner/gate.ts'
import { runLong } from './runner/long.ts'
import { MEMORY_FOLDER, mayHoldRun } from './runner/memoryFolder.ts'
import { chooseRunnable } from './runner/programs.ts'
import { chooseQuick } from './runner/quick.ts'
import { endGroup, type FileRun, type Running, runFile } from './runner/runFile.ts'
import { installLine, seedLines, summarize } from './runner/summary.ts'
import { groupFiles, runGroup } from './runner/together.ts'

const CHECKOUT = join(import.meta.dirname, '../..')
/** Twice the cores of the smallest machine that the project is built for: most files wait now and then. */
const AT_ONCE = 4
/** Several times what the slowest file takes on a busy machine. */
const FILE_LIMIT_MS = 120_000
const MINUTES_PRESET = 25
/** Installs the engine for GGUF files, which takes half a minute. */
const ENGINE = 'server/test/ggufEngine.ts'

const { values, positionals: wanted } = parseArgs({
  args: process.argv.slice(2),
  options: {
    long: { type: 'boolean', default: false },
    packages: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    minutes: { type: 'string', default: `${MINUTES_PRESET}` },
  },
  allowPositionals: true,
})
const minutes = Number(values.minutes)
if (!(minutes > 0)) throw new Error('--minutes takes a number of minutes, such as 25')

const startedAtMs = systemClock.monotonicMs()
const running: Running = new Set()

const OPERATORS_OWN = ['DATABASE_URL', 'REDIS_URL']
/** Settings of the tests themselves, which reach them. */
const OF_TESTS = /^TOLLGATE_(FIRST_SEED|LONG_SECONDS)$/

/** The environment that tests see: nothing that an operator has set for a Tollgate of their own. */
function environmentOf(postgresUrl: string, migratedCluster: string): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(
    ([name]) => (!name.startsWith('TOLLGATE_') || OF_TESTS.test(name)) && !OPERATORS_OWN.includes(name),
  )
  return {
    ...Object.fromEntries(kept),
    [TEST_POSTGRES_VARIABLE]: postgresUrl,
    [MIGRATED_CLUSTER_VARIABLE]: migratedCluster,
  }
}

function report(run: FileRun, tries: number, place: string): void {
  const { file, passed, failed, skipped, seconds, output } = run
  const counts = [
    `${passed} passed`,
    ...(failed > 0 ? [`${failed} FAILED`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ]
  const again = tries > 1 ? `, try ${tries}` : ''
  console.log(`[${place}] ${file}: ${counts.join(', ')} in ${seconds.toFixed(1)} s${again}`)
  if (failed > 0) console.log(`${output.trimEnd()}\n`)
  else for (const line of seedLines(run)) console.log(`  ${line}`)
}

/** Runs the files over a PostgreSQL of the run's own, some once `engine` is there; null when the run was interrupted. */
async function runAll(files: readonly string[], closures: Closures, engine: Promise<void>): Promise<Outcome | null> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-run-'))
  await chmod(folder, 0o711)
  const migratedCluster = join(folder, 'migrated')
  const [postgres] = await Promise.all([startTestPostgres(), makeMigratedCluster(migratedCluster)])
  let interrupted = false
  const interrupt = () => {
    interrupted = true
    for (const group of running) endGroup(group)
    void postgres.stop().then(() => process.exit(130))
  }
  process.on('SIGINT', interrupt)
  process.on('SIGTERM', interrupt)
  let started = 0
  let ended = 0
  const environment = environmentOf(postgres.url, migratedCluster)
  const folderOf = () => {
    started += 1
    return join(folder, `${started}`)
  }
  const options = { checkout: CHECKOUT, limitMs: FILE_LIMIT_MS, environment }
  const runOne = (file: string, limitMs: number, more: Readonly<Record<string, string>> = {}) =>
    runFile(file, running, { ...options, limitMs, folder: folderOf(), environment: { ...environment, ...more } })
  const reported = (run: FileRun, tries: number) => {
    if (tries === 1) ended += 1
    report(run, tries, `${ended}/${files.length}`)
  }
  try {
    const outcome = values.long
      ? await runLong(files, { minutes, textOf: closures.textOf, run: runOne, report: reported, clock: systemClock })
      : await runGate(groupFiles(files, closures), {
          atOnce: AT_ONCE,
          async run(group) {
            if (group.some((file) => closures.of(file).has(ENGINE))) await engine
            return runGroup(group, running, options, folderOf)
          },
          report: reported,
        })
    return interrupted ? null : outcome
  } finally {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Puts the quick files last, so that no slow one is left alone at the end. */
function quickLast(files: readonly string[], closures: Closures): readonly string[] {
  const quick = new Set(chooseQuick(files, closures))
  return [...files.filter((file) => !quick.has(file)), ...quick]
}

/** Installs the packages that these tests need and `npm ci` does not bring. Few of them need the engine, which the result waits for. */
async function install(files: readonly string[], closures: Closures): Promise<{ readonly engine: Promise<void> }> {
  await import('./install.ts')
  const reach = (module: string) => files.some((file) => closures.of(file).has(module))
  if (reach('server/test/kubernetesClient.ts')) await import('./kubernetesClient.ts')
  const engine = reach(ENGINE) ? import('./ggufEngine.ts').then(() => {}) : Promise.resolve()
  // A failure is thrown to who waits for it.
  engine.catch(() => {})
  if (values.long) await engine
  return { engine }
}

async function main(): Promise<number> {
  const all = await findTests(CHECKOUT, { long: values.long })
  const found = all.filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  if (found.length === 0) throw new Error(`no test file has ${wanted.join(' or ')} in its path`)
  const closures = readClosures(CHECKOUT)
  const { files: runnable, missing } = chooseRunnable(found, closures)
  const files = values.long ? runnable : quickLast(runnable, closures)
  const packages = missing.map(({ program }) => program.debianPackage)
  if (values.packages) {
    console.log(packages.join(' '))
    return 0
  }
  const mayNotSkip = values.long ? values.all : process.env['CI'] === 'true'
  if (mayNotSkip && missing.length > 0) {
    console.error(`The tests need programs that are missing here. Install them with:\n  ${installLine(packages)}`)
    return 1
  }
  const { engine } = await install(files, closures)
  // The long tests write files of gigabytes, and measure.
  if (!values.long && mayHoldRun(MEMORY_FOLDER)) process.env['TMPDIR'] = MEMORY_FOLDER
  const outcome = await runAll(files, closures, engine)
  if (outcome === null) return 130
  const seconds = (systemClock.monotonicMs() - startedAtMs) / 1_000
  const { lines, passed } = summarize({ ...outcome, missing, seconds, mayNotSkip })
  for (const line of lines) console.log(line)
  return passed ? 0 : 1
}

process.exit(await main())
