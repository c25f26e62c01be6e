/** How soon commands answer, beside a bare Node. README.md explains it. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../test/gateway.ts'
import { startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { Samples } from './statistics.ts'

const USAGE = 'usage: bun server/bench/cliStart.ts [--starts 30]'
const ROOT = join(import.meta.dirname, '../..')

/** A command, and what its figure is to stay below; null: it is there to compare with. */
interface Start {
  readonly name: string
  readonly program: string
  readonly words: readonly string[]
  readonly aimMs: number | null
  readonly samples: Samples
}

const { text } = readOptions(USAGE, { starts: '30' }, [])
const starts = atLeastOne('starts', text['starts'])

const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
const postgres = await startTestPostgres({ durable: false })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const gateway = await openGateway()
try {
  await measure(gateway)
} finally {
  await gateway.close()
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
}

/** Starts every command in turn, so that what else the machine does hits all alike, and prints a line for each. */
async function measure({ app, customer }: Gateway): Promise<void> {
  const listening = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => app.handle(request, { address: '127.0.0.1', setIdleTimeout: () => {} }),
  })
  try {
    const { key } = await customer()
    const cli = builtCli()
    const environment = {
      ...process.env,
      ...{ XDG_CONFIG_HOME: folder, TOLLGATE_KEYCHAIN: 'off', TOLLGATE_API_KEY: key },
      TOLLGATE_URL: `http://127.0.0.1:${listening.port}`,
    }
    const table: Start[] = [
      start('node -e 0, to its end', 'node', ['-e', '0'], null),
      start("tollgate --version (the customer's)", 'node', [cli, '--version'], 150),
      start("tollgate balance (the customer's)", 'node', [cli, 'balance'], 150),
      start("./tollgate --help (the server's)", join(ROOT, 'tollgate'), ['--help'], 400),
    ]
    console.log(describeMachine())
    console.log(describeConditions(folder))
    // The first round fills the caches of the disk, and counts for nothing.
    for (let round = 0; round <= starts; round += 1) {
      for (const each of table) {
        const elapsedMs = await firstByteMs(each, environment)
        if (round > 0) each.samples.add(elapsedMs)
      }
    }
    console.log(`${starts} starts each; ms until the first byte of output, of node -e 0 until its end`)
    console.log(`${''.padEnd(36)}  median     p95    aim`)
    for (const { name, samples, aimMs } of table) {
      const { p50, p95 } = samples.percentiles()
      const aim = aimMs === null ? '' : `< ${aimMs}`.padStart(7)
      console.log(`${name.padEnd(36)}  ${p50.toFixed(0).padStart(6)}  ${p95.toFixed(0).padStart(6)}${aim}`.trimEnd())
    }
  } finally {
    await listening.stop(true)
  }
}

function start(name: string, program: string, words: readonly string[], aimMs: number | null): Start {
  return { name, program, words, aimMs, samples: new Samples() }
}

/** Builds the customer's command as it is published; returns its file. */
function builtCli(): string {
  const built = spawnSync(process.execPath, [join(ROOT, 'cli/build.ts'), join(folder, 'cli')], { encoding: 'utf8' })
  if (built.status !== 0) throw new Error(`the build ended with ${built.status}: ${built.stderr}`)
  return join(folder, 'cli/tollgate.js')
}

/** Returns the milliseconds until a command's first byte on stdout, or its end where it has none. Resolves when it has ended. */
async function firstByteMs({ name, program, words }: Start, env: NodeJS.ProcessEnv): Promise<number> {
  const startedAt = performance.now()
  const child: ChildProcess = spawn(program, words, { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
  let firstAt: number | null = null
  child.stdout?.on('data', () => {
    firstAt ??= performance.now()
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`${name} ended with ${code}`)
  return (firstAt ?? performance.now()) - startedAt
}
