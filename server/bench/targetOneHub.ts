import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { startEmbedded } from '../src/infra/postgres/embedded.ts'
import { freePort, processTree } from './processes.ts'
import { type BenchContext, type Target, waitUntilServing, waitUntilUp } from './target.ts'
import { databaseTree } from './targetTollgate.ts'

/** Name of the program, looked for on the PATH. The build that was measured is named in docs/bench.md. */
const PROGRAM = 'one-hub'
const START_LIMIT_MS = 60_000
const VERSION_LIMIT_SECONDS = 10
const PROBE_MODEL = 'mock-1x0'
/** Quota of the account and of the token. The column is a 32-bit number. */
const GRANT = 2_000_000_000
/** Quota that each call costs, whatever its length. A unit of the price is a thousand of quota. */
const COST = 10
/** Below the 200 connections that the embedded PostgreSQL takes; left to itself one-hub opens up to 1,000. */
const DATABASE_CONNECTIONS = 150
/** Of the account's group: the load is to be bounded by the gateway itself. */
const CALLS_PER_MINUTE = 6_000_000
/** The type of its lines about charged calls. */
const LOG_OF_CALLS = 2
/** Its default. */
const BATCH_SECONDS = 5
/** Batches are written at this distance, and writing one takes time. */
const BATCHED_CHARGES_WITHIN_MS = 7_000
/** Without batches a charge follows its answer; under load they queue, so the books are read when they stand still. */
const CHARGES_WITHIN_MS = 2_000

/** Starts one-hub on PostgreSQL as it comes: each call is charged by itself, after its answer. */
export function startOneHub(context: BenchContext): Promise<Target> {
  return start(context, 'one-hub', false)
}

/** Starts one-hub as fast as it gets: charges in batches of five seconds, and Redis in front of PostgreSQL. */
export function startBatchedOneHub(context: BenchContext): Promise<Target> {
  return start(context, 'one-hub-batched', true)
}

async function start(context: BenchContext, name: string, batched: boolean): Promise<Target> {
  const { processes } = context
  const program = Bun.which(PROGRAM)
  if (program === null) {
    throw new Error(`${PROGRAM} is missing: put its program on the PATH (github.com/MartialBE/one-hub)`)
  }
  const folder = join(context.folder, name)
  await mkdir(folder, { recursive: true })
  const dataDir = join(folder, 'data')
  const starting = startEmbedded({ dataDir, clock: systemClock, log: (message) => console.error(message) })
  // Registered at once: a run that is cut short while it starts must not leave it behind.
  processes.afterwards(() => starting.then(({ stop }) => stop()).catch((error: Error) => console.error(error.message)))
  const postgres = await starting
  const database = openClient(postgres.superuserUrl, { maxConnections: 1, clock: systemClock })
  const redis = batched ? await startRedis(context, folder) : null
  const port = freePort()
  const env = { ...environment(port, postgres.superuserUrl, folder), ...(redis === null ? {} : batches(redis.port)) }
  const logFile = join(folder, 'output.log')
  const launch = () => processes.start([program], { cwd: folder, logFile, env })
  let child = await launch()
  await waitForStatus(port, logFile)
  const authorization = await setUp(database, port, context)

  const gatewayPids = () => processTree(child.pid)
  const kill = async () => {
    for (const pid of gatewayPids()) process.kill(pid, 'SIGKILL')
    await child.exited
  }
  const restart = async () => {
    child = await launch()
    await waitForStatus(port, logFile)
  }
  await kill()
  await restart()
  const target: Target = {
    name,
    version: (await processes.run([program, '--version'], VERSION_LIMIT_SECONDS)).trim(),
    port,
    path: '/v1/chat/completions',
    headers: {},
    authorizations: [authorization],
    modelName: (mockModel) => mockModel,
    gatewayPids,
    databasePids: () => [...databaseTree(dataDir), ...(redis === null ? [] : [redis.pid])],
    chargedCalls: () => chargedCalls(database),
    loggedCalls: () => loggedCalls(database),
    chargesWithinMs: batched ? BATCHED_CHARGES_WITHIN_MS : CHARGES_WITHIN_MS,
    killable: { kill, restart },
  }
  await waitUntilServing(target, PROBE_MODEL, 20_000)
  return target
}

function environment(port: number, databaseUrl: string, folder: string): Record<string, string> {
  return {
    PORT: String(port),
    SQL_DSN: databaseUrl,
    SQL_MAX_OPEN_CONNS: String(DATABASE_CONNECTIONS),
    TZ: 'UTC',
    LOG_DIR: join(folder, 'logs'),
    SESSION_SECRET: crypto.randomUUID(),
    USER_TOKEN_SECRET: crypto.randomUUID(),
    // It would fetch the tables of its tokenizers from the internet; the mock's answers say their usage.
    DISABLE_TOKEN_ENCODERS: 'true',
    MEMORY_CACHE_ENABLED: 'true',
  }
}

function batches(redisPort: number): Record<string, string> {
  return {
    REDIS_CONN_STRING: `redis://127.0.0.1:${redisPort}`,
    BATCH_UPDATE_ENABLED: 'true',
    BATCH_UPDATE_INTERVAL: String(BATCH_SECONDS),
  }
}

async function startRedis({ processes }: BenchContext, folder: string): Promise<{ port: number; pid: number }> {
  if (Bun.which('redis-server') === null) {
    throw new Error("redis-server is missing: install it (Debian: 'apt-get install redis-server')")
  }
  const port = freePort()
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
  const child = await processes.start(['redis-server', ...words], { logFile: join(folder, 'redis.log') })
  await waitUntilUp('redis-server', START_LIMIT_MS, async () => {
    const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data() {} } })
    socket.end()
    return true
  })
  return { port, pid: child.pid }
}

async function waitForStatus(port: number, logFile: string): Promise<void> {
  const isUp = async () => (await fetch(`http://127.0.0.1:${port}/api/status`)).ok
  await waitUntilUp(PROGRAM, START_LIMIT_MS, isUp).catch(async (error: Error) => {
    const words = await readFile(logFile, 'utf8')
    throw new Error(`${error.message}; its output ends with:\n${words.slice(-3_000)}`)
  })
}

/** Makes the channel to the mock, the price and the token by the interface of one-hub; returns the Authorization of calls. */
async function setUp(database: Database, port: number, { mockPort, models }: BenchContext): Promise<string> {
  // The first start makes a root user with a password that everybody knows; nobody is to log in by it.
  const [root] = await database.query<{ access_token: string }>(
    "update users set password = '', quota = $1 where id = 1 returning trim(access_token) as access_token",
    [GRANT],
  )
  if (root === undefined) throw new Error('one-hub made no root user')
  const names = [...new Set([PROBE_MODEL, ...models])]
  const post = async (path: string, body: object): Promise<void> => {
    const headers = { Authorization: `Bearer ${root.access_token}`, 'Content-Type': 'application/json' }
    const url = `http://127.0.0.1:${port}/api${path}`
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await answer.text()
    if (!text.includes('"success":true')) throw new Error(`one-hub refused ${path}: ${text.slice(0, 500)}`)
  }
  const price = { model: PROBE_MODEL, type: 'times', channel_type: 1, input: COST / 1_000, output: 0 }
  await post('/prices/multiple', { models: names, price })
  await post('/channel/', {
    type: 1,
    key: 'sk-bench',
    name: 'mock',
    base_url: `http://127.0.0.1:${mockPort}`,
    models: names.join(','),
    group: 'default',
  })
  await post('/token/', { name: 'bench', expired_time: -1, remain_quota: GRANT, unlimited_quota: false })
  // It is read at the start.
  await database.query("update user_groups set api_rate = $1 where symbol = 'default'", [CALLS_PER_MINUTE])
  const [token] = await database.query<{ key: string }>("select key from tokens where name = 'bench'")
  if (token === undefined) throw new Error('one-hub made no token')
  return `Bearer sk-${token.key}`
}

/** Returns how many calls were charged so far. The account's balance is the book that its owner pays by. */
async function chargedCalls(database: Database): Promise<number> {
  const [account] = await database.query<{ quota: number }>('select quota::int4 as quota from users where id = 1')
  if (account === undefined) throw new Error('the account of one-hub is gone')
  return (GRANT - Number(account.quota)) / COST
}

/** It also writes a line for each call to a log, from which the balance isn't computed. */
async function loggedCalls(database: Database): Promise<number> {
  const [log] = await database.query<{ calls: number }>('select count(*)::int4 as calls from logs where type = $1', [
    LOG_OF_CALLS,
  ])
  return Number(log?.calls ?? 0)
}
