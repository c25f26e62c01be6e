import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from '../src/infra/postgres/database.ts'
import { mockTokens } from './mockModel.ts'
import { freePort, processTree } from './processes.ts'
import { type BenchContext, type Target, waitUntilServing } from './target.ts'

/** The checkout that this bench is part of. */
export const OWN_CHECKOUT = join(import.meta.dir, '../..')
const START_LIMIT_MS = 60_000
const COMMAND_LIMIT_SECONDS = 60
/** How long an orphaned PostgreSQL may take for each kind of shutdown, fast to hard. */
const ORPHAN_STEP_MS = 5_000
const GRANT_USD = 1_000_000
/** All keys of an organization have the places of ten together, and the bench has one organization. */
const PLACES_OF_KEY = 1_000
/** Asked for once, to see that calls are served. */
const PROBE_MODEL = 'mock-1x0'

/** Returns the command of a checkout; older ones have it in another place. */
export function programIn(checkout: string): string {
  const script = join(checkout, 'tollgate')
  return existsSync(script) ? script : join(checkout, 'server/bin/tollgate')
}

/**
 * Starts Tollgate as it comes, with its own PostgreSQL: keys, holds, and each charge durable before its answer ends.
 * `checkout` may be another one than ours, of any version since the first; its packages must be installed.
 */
export async function startTollgate(
  context: BenchContext,
  { name, checkout } = { name: 'tollgate', checkout: OWN_CHECKOUT },
): Promise<Target> {
  const { processes } = context
  const program = programIn(checkout)
  const folder = join(context.folder, name)
  await mkdir(folder, { recursive: true })
  const dataDir = join(folder, 'data')
  const configFile = join(folder, 'tollgate.yaml')
  await writeFile(configFile, inWordsOf(checkout, configuration(context)))
  const port = freePort()
  const where = ['--data-dir', dataDir, '--config', configFile]
  const ports = ['--port', String(port), '--admin-port', String(freePort())]
  const env = { DATABASE_URL: undefined, REDIS_URL: undefined }
  const logFile = join(folder, 'output.log')
  const launch = () => processes.start([program, 'serve', ...ports, ...where], { logFile, env })
  let child = await launch()
  processes.afterwards(() => stopOrphan(dataDir))
  await waitForPort(port, child.exited, logFile)

  const command = async (words: readonly string[]): Promise<Record<string, unknown>> => {
    return JSON.parse(await processes.run([program, ...words, '--json'], COMMAND_LIMIT_SECONDS))
  }
  const authorizations = await makeAuthorizations(checkout, dataDir, context.keyCount)
  await command(['credits', 'grant', '--org', 'default', '--usd', String(GRANT_USD), '--data-dir', dataDir])

  const gatewayPids = () => {
    const database = new Set(databaseTree(dataDir))
    return processTree(child.pid).filter((pid) => !database.has(pid))
  }
  const target: Target = {
    name,
    port,
    path: '/v1/chat/completions',
    headers: {},
    authorizations,
    modelName: (mockModel) => `svc/${mockModel}`,
    gatewayPids,
    databasePids: () => databaseTree(dataDir),
    chargedCalls: () => chargedCalls(port, authorizations[0] ?? ''),
    killable: {
      async kill() {
        for (const pid of gatewayPids()) process.kill(pid, 'SIGKILL')
        await child.exited
      },
      async restart() {
        child = await launch()
        await waitForPort(port, child.exited, logFile)
      },
    },
  }
  await waitUntilServing(target, PROBE_MODEL, 10_000)
  return target
}

/**
 * So many keys of the organization that the first start makes; by a command each they would take minutes. They are made by the
 * checkout's own code, since its schema may be another.
 */
async function makeAuthorizations(checkout: string, dataDir: string, keyCount: number): Promise<string[]> {
  const { makeKey }: typeof import('../test/customer.ts') = await import(join(checkout, 'server/test/customer.ts'))
  const { openDirectory }: typeof import('../test/dataDirectory.ts') = await import(
    join(checkout, 'server/test/dataDirectory.ts')
  )
  const database = await openDirectory(dataDir)
  try {
    const organizationId = await defaultOrganization(database)
    const authorizations: string[] = []
    while (authorizations.length < keyCount) {
      authorizations.push(`Bearer ${(await makeKey(database, organizationId)).key}`)
    }
    return authorizations
  } finally {
    await database.close()
  }
}

/** The id of the organization that the first start makes; the port may open before it is there. */
async function defaultOrganization(database: Database): Promise<string> {
  const limitAt = performance.now() + START_LIMIT_MS
  for (;;) {
    // By a query that every version's database answers.
    const [organization] = await database.query<{ id: string }>("select id from organizations where name = 'default'")
    if (organization !== undefined) return organization.id
    if (performance.now() > limitAt) throw new Error("the server's first start has made no organization")
    await Bun.sleep(100)
  }
}

/** Prices each answer at exactly one cent, so that the balance counts the answers. */
function configuration({ mockPort, models }: BenchContext): string {
  const providers = { mock: { dialect: 'openai', base_url: `http://127.0.0.1:${mockPort}/v1` } }
  const served = [PROBE_MODEL, ...models].map((model) => {
    return {
      id: `svc/${model}`,
      context_length: 131_072,
      max_output_tokens: 16_384,
      pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_microcents: Math.floor(1e12 / mockTokens(model)) },
      targets: [{ provider: 'mock', model }],
    }
  })
  return JSON.stringify({ providers, models: served, open_requests_per_key: PLACES_OF_KEY }, null, 2)
}

/** Older versions call providers upstreams in their settings. */
function inWordsOf(checkout: string, settings: string): string {
  const example = readFileSync(join(checkout, 'tollgate.example.yaml'), 'utf8')
  return /^upstreams:/m.test(example) ? settings.replaceAll('"provider', '"upstream') : settings
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

/** Returns the number of calls charged so far: each costs one cent. */
async function chargedCalls(port: number, authorization: string): Promise<number> {
  const headers = { Authorization: authorization }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/billing/balance`, { headers })
  if (!answer.ok) throw new Error(`the balance can't be read: status ${answer.status}: ${await answer.text()}`)
  const balance = (await answer.json()) as { balance_cents: number }
  return GRANT_USD * 100 - balance.balance_cents
}

/** The processes of the embedded PostgreSQL in a data directory. */
export function databaseTree(dataDir: string): number[] {
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
