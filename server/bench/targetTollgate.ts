import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeKey } from '../test/customer.ts'
import { openDirectory } from '../test/dataDirectory.ts'
import { freePort, processTree } from './processes.ts'
import { type Surroundings, type Target, waitUntilServing } from './target.ts'

/** The checkout that this bench is part of. */
export const OWN_CHECKOUT = join(import.meta.dir, '../..')
const START_LIMIT_MS = 60_000
const COMMAND_LIMIT_SECONDS = 60
/** How long an orphaned PostgreSQL may take for each kind of shutdown, fast to hard. */
const ORPHAN_STEP_MS = 5_000
const GRANT_USD = 1_000_000
/** Asked for once, to see that calls are served. */
const PROBE_MODEL = 'mock-1x0'

/**
 * Starts Tollgate as it comes, with its own PostgreSQL: keys, holds, and each charge durable before its answer ends.
 * `checkout` may be another one than ours, of any version since the first; its packages must be installed.
 */
export async function startTollgate(
  surroundings: Surroundings,
  { name, checkout } = { name: 'tollgate', checkout: OWN_CHECKOUT },
): Promise<Target> {
  const { processes } = surroundings
  const program = join(checkout, 'server/bin/tollgate')
  const folder = join(surroundings.folder, name)
  await mkdir(folder, { recursive: true })
  const dataDir = join(folder, 'data')
  const configFile = join(folder, 'tollgate.yaml')
  await writeFile(configFile, configuration(surroundings))
  const port = freePort()
  const where = ['--data-dir', dataDir, '--config', configFile]
  const ports = ['--port', String(port), '--admin-port', String(freePort())]
  const env = { DATABASE_URL: undefined, REDIS_URL: undefined }
  const child = await processes.start([program, 'serve', ...ports, ...where], {
    logFile: join(folder, 'output.log'),
    env,
  })
  processes.afterwards(() => stopOrphan(dataDir))
  await waitForPort(port, child.exited, join(folder, 'output.log'))

  const command = async (words: readonly string[]): Promise<Record<string, unknown>> => {
    return JSON.parse(await processes.run([program, ...words, '--json'], COMMAND_LIMIT_SECONDS))
  }
  const authorizations = await makeAuthorizations(dataDir, surroundings.keyCount)
  await command(['credits', 'grant', '--org', 'default', '--usd', String(GRANT_USD), '--data-dir', dataDir])

  const target: Target = {
    name,
    port,
    path: '/v1/chat/completions',
    headers: {},
    authorizations,
    modelName: (mockModel) => `svc/${mockModel}`,
    gatewayPids: () => {
      const database = new Set(databaseTree(dataDir))
      return processTree(child.pid).filter((pid) => !database.has(pid))
    },
    databasePids: () => databaseTree(dataDir),
    chargedCalls: () => chargedCalls(port, authorizations[0] ?? ''),
  }
  await waitUntilServing(target, PROBE_MODEL, 10_000)
  return target
}

/** So many keys of the organization that the first start makes; by a command each they would take minutes. */
async function makeAuthorizations(dataDir: string, keyCount: number): Promise<string[]> {
  const database = await openDirectory(dataDir)
  try {
    // By a query that every version's database answers.
    const [organization] = await database.query<{ id: string }>("select id from organizations where name = 'default'")
    if (organization === undefined) throw new Error("the server's first start has made no organization")
    const authorizations: string[] = []
    while (authorizations.length < keyCount) {
      authorizations.push(`Bearer ${(await makeKey(database, organization.id)).key}`)
    }
    return authorizations
  } finally {
    await database.close()
  }
}

/** Prices each answer at exactly one cent, so that the balance counts the answers. */
function configuration({ mockPort, models }: Surroundings): string {
  const upstreams = { mock: { dialect: 'openai', base_url: `http://127.0.0.1:${mockPort}/v1` } }
  const served = [PROBE_MODEL, ...models].map((model) => {
    const chunks = Number(/^mock-(\d+)x/.exec(model)?.[1])
    return {
      id: `svc/${model}`,
      context_length: 131_072,
      max_output_tokens: 16_384,
      pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_microcents: Math.floor(1e12 / chunks) },
      targets: [{ upstream: 'mock', model }],
    }
  })
  return JSON.stringify({ upstreams, models: served }, null, 2)
}

/** The port opens once calls can be served; a server that ends before is reported with its last words. */
async function waitForPort(port: number, exited: Promise<number>, logFile: string): Promise<void> {
  let ended = false
  exited.then(() => {
    ended = true
  })
  const limitAt = performance.now() + START_LIMIT_MS
  for (;;) {
    const open = await fetch(`http://127.0.0.1:${port}/health`).then(
      () => true,
      () => false,
    )
    if (open) return
    if (ended || performance.now() > limitAt) {
      throw new Error(`tollgate doesn't start; its output ends with:\n${readFileSync(logFile, 'utf8').slice(-3000)}`)
    }
    await Bun.sleep(100)
  }
}

/** What was charged so far, in answers of one cent each. */
async function chargedCalls(port: number, authorization: string): Promise<number> {
  const headers = { Authorization: authorization }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/billing/balance`, { headers })
  if (!answer.ok) throw new Error(`the balance can't be read: status ${answer.status}: ${await answer.text()}`)
  const balance = (await answer.json()) as { balance_cents: number }
  return GRANT_USD * 100 - balance.balance_cents
}

function databaseTree(dataDir: string): number[] {
  const pid = databasePid(dataDir)
  return pid === undefined ? [] : processTree(pid)
}

/** The embedded server's process, from the lock file that PostgreSQL keeps in its data directory. */
function databasePid(dataDir: string): number | undefined {
  try {
    for (const file of new Bun.Glob('**/postmaster.pid').scanSync({ cwd: dataDir, absolute: true })) {
      return Number(readFileSync(file, 'utf8').split('\n')[0])
    }
  } catch {
    // No data directory yet, or the server just ended.
  }
  return undefined
}

/** A gateway that had to be killed leaves its PostgreSQL running, by design; the bench's own must not stay. */
async function stopOrphan(dataDir: string): Promise<void> {
  const pid = databasePid(dataDir)
  if (pid === undefined || !isRunning(pid)) return
  console.error(`tollgate ended before its PostgreSQL (process ${pid}); that is being stopped now`)
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (isRunning(pid)) process.kill(pid, signal)
    for (let waitedMs = 0; waitedMs < ORPHAN_STEP_MS && isRunning(pid); waitedMs += 100) await Bun.sleep(100)
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
