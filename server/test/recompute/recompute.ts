/** One run: a real server, an upstream and random load, and every charge of it recomputed by an independent program. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Database } from '../../src/io/postgres/database.ts'
import { systemRandom } from '../../src/io/random.ts'
import { MICROCENTS_PER_CENT } from '../../src/kernel/money.ts'
import { grantCredit } from '../../src/money/grantCredit.ts'
import { makeCustomer, makeKey, type TestKey } from '../customer.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startRedis } from '../redis.ts'
import { startServer, type TestServer } from '../server.ts'
import { changingPrices } from './changePrices.ts'
import { makeClips } from './clips.ts'
import { countOpenVideos, exportCharges, readBalances } from './exportBooks.ts'
import { type LoadResult, runLoad } from './load.ts'
import { PAYERS, type Payer } from './plan.ts'
import { settingsText } from './settings.ts'

export interface RunOptions {
  readonly seed: number
  readonly calls: number
  /** Gateways of the server. */
  readonly processes: number
  readonly atOnce: number
  /** An empty folder for the files of the run. */
  readonly folder: string
  readonly report?: (line: string) => void
  /** Ends the run, and what it has started. */
  readonly signal?: AbortSignal
}

/** What `recompute.py` prints. */
export interface Recomputed {
  readonly calls: number
  readonly charges: number
  readonly estimated: number
  readonly cached: number
  readonly embeddings: number
  /** Requests for images that were charged, and those of them that got fewer than they asked for. */
  readonly images: number
  readonly partial: number
  /** Videos that were charged, and their seconds. */
  readonly videos: number
  readonly video_seconds: number
  /** Videos that were made at one price and completed when another was in force. */
  readonly frozen: number
  /** Models, by tier, that were charged on both sides of an edge. */
  readonly peak_and_off_peak: number
  /** Charges for calls whose clients left before they knew anything of them. */
  readonly early: number
  readonly outcomes: Readonly<Record<string, number>>
  readonly found: number
  readonly problems: readonly string[]
}

export interface RunResult {
  readonly load: LoadResult
  readonly recomputed: Recomputed
  /** What the server's own verification says. */
  readonly agrees: boolean
}

/** Credit: enough for any run, but for the one who is to run out. */
const CREDIT_CENTS: Readonly<Record<Payer, number>> = {
  first: 1_000_000_000,
  second: 1_000_000_000,
  third: 1_000_000_000,
  poor: 20,
  capped: 1_000_000_000,
}
const DAILY_LIMIT_DOLLARS = 6
/** Less than many an answer costs, and a little less than all that are asked for. */
const POCKET_MICROCENTS = 300_000n
const POCKET_INTERVAL_MS = 100
const KEYS_EACH = 6
/** As many as calls are open at once, and some that rest. */
const ALONE_KEYS_EACH = 80

/** The load begins this long before a full minute, at which prices change. */
const BEFORE_EDGE_MS = 4_000
const MINUTE_MS = 60_000

export async function runOnce(options: RunOptions): Promise<RunResult> {
  const { seed, folder, processes, report = () => {} } = options
  const file = (name: string) => join(folder, name)
  await makeClips(file('clips'))
  const upstream = await startUpstream(seed, file('sent.jsonl'), file('clips'))
  const edgeMs = Math.ceil((Date.now() + BEFORE_EDGE_MS) / MINUTE_MS) * MINUTE_MS
  const settings = settingsText(seed, edgeMs, upstream.url, false)
  const laterSettings = settingsText(seed, edgeMs, upstream.url, true)
  await writeFile(file('settings.json'), settings)
  await writeFile(file('settings-later.json'), laterSettings)
  const redis = await startRedis()
  const environment = { TOLLGATE_PROCESSES: String(processes), REDIS_URL: redis.url }
  let server = await startServer({ settings, environment })
  const work = async (): Promise<RunResult> => {
    const house = await onDatabase(server, (database) => furnish(database))
    await setDailyLimit(server.url, house.admin)
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, edgeMs - BEFORE_EDGE_MS - Date.now())))
    const { url } = server
    const onProgress = (done: number) => report(`${done} calls`)
    const run = () => runLoad({ ...options, ...house, url, path: file('received.jsonl'), onProgress })
    const { dataDir } = server
    const settingsPath = join(dataDir, 'tollgate.yaml')
    const changing = { url, key: house.admin.key, settingsPath, settings: laterSettings, hold: upstream.hold }
    const { result: load, change } = await onDatabase(server, (database) => {
      const countOpen = () => countOpenVideos(database)
      return withPocketMoney(database, house, () => changingPrices({ ...changing, countOpen }, run))
    })
    await writeFile(file('change.json'), JSON.stringify(change))
    await onDatabase(server, (database) => untilNoVideos(database))
    report(`${options.calls} calls in ${load.seconds.toFixed(0)} s`)
    // A stop that ends well has posted every charge; a new start folds in what the old processes had.
    const exitCode = await server.stop()
    if (exitCode !== 0) throw new Error(`the server ended with ${exitCode}: ${server.errors()}`)
    await upstream.finish()
    server = await startServer({ settings, dataDir })
    const granted = house.granted
    await onDatabase(server, async (database) => {
      report(`${await exportCharges(database, file('charges.jsonl'))} charges`)
      const balances = await readBalances(database, [...granted.keys()])
      const accounts = balances.map((each) => ({ ...each, granted: String(granted.get(each.organizationId)) }))
      await writeFile(file('accounts.json'), JSON.stringify(accounts))
    })
    const recomputed = await recompute(folder)
    report('recomputed')
    const { agrees } = await server.command('ledger', 'verify')
    return { load, recomputed, agrees: agrees === true }
  }
  try {
    return await Promise.race([work(), stopped(options.signal)])
  } finally {
    await server.remove()
    upstream.process.kill('SIGKILL')
    await redis.kill()
    await rm(file('recompute.sqlite'), { force: true })
  }
}

/** Jobs whose clients have left go on: a charge that came later would be in one file and not in the other. */
async function untilNoVideos(database: Database): Promise<void> {
  const untilMs = Date.now() + 2 * MINUTE_MS
  while ((await countOpenVideos(database)) > 0) {
    if (Date.now() > untilMs) throw new Error('there are videos that do not come to an end')
    await new Promise((resolve) => setTimeout(resolve, POCKET_INTERVAL_MS))
  }
}

function stopped(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
}

async function onDatabase<T>(server: TestServer, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDirectory(server.dataDir)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

type KeysByPayer = Record<Payer, readonly TestKey[]>

interface House {
  readonly keys: KeysByPayer
  readonly aloneKeys: KeysByPayer
  /** Of the organization with a daily limit. */
  readonly admin: TestKey
  /** Micro-cents by organization. */
  readonly granted: Map<string, bigint>
}

async function furnish(database: Database): Promise<House> {
  const keys: Partial<KeysByPayer> = {}
  const aloneKeys: Partial<KeysByPayer> = {}
  const granted = new Map<string, bigint>()
  let admin: TestKey | undefined
  for (const payer of PAYERS) {
    const first = await makeCustomer(database, { cents: CREDIT_CENTS[payer], admin: true })
    granted.set(first.organizationId, BigInt(CREDIT_CENTS[payer]) * MICROCENTS_PER_CENT)
    if (payer === 'capped') admin = first
    const more = (count: number) =>
      Promise.all(Array.from({ length: count }, () => makeKey(database, first.organizationId)))
    keys[payer] = [first, ...(await more(KEYS_EACH - 1))]
    aloneKeys[payer] = await more(ALONE_KEYS_EACH)
  }
  if (admin === undefined) throw new Error('nobody has a daily limit')
  return { keys: keys as KeysByPayer, aloneKeys: aloneKeys as KeysByPayer, admin, granted }
}

/** Gives the poor one a little now and then while `work` goes on, so that its money ends again and again. */
async function withPocketMoney<T>(database: Database, { keys, granted }: House, work: () => Promise<T>): Promise<T> {
  const organizationId = keys.poor[0]?.organizationId ?? ''
  let isOver = false
  const giving = (async () => {
    for (let times = 1; !isOver; times += 1) {
      await grantCredit(database, systemRandom(), {
        organizationId,
        amountMicrocents: POCKET_MICROCENTS,
        source: `pocket money ${times}`,
        note: null,
        isPayment: false,
        atMs: Date.now(),
      })
      granted.set(organizationId, (granted.get(organizationId) ?? 0n) + POCKET_MICROCENTS)
      await new Promise((resolve) => setTimeout(resolve, POCKET_INTERVAL_MS))
    }
  })()
  try {
    return await work()
  } finally {
    isOver = true
    await giving
  }
}

async function setDailyLimit(url: string, { key }: TestKey): Promise<void> {
  const response = await fetch(`${url}/billing/spending-limit`, {
    method: 'PUT',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      monthly_limit_dollars: 100 * DAILY_LIMIT_DOLLARS,
      daily_limit_dollars: DAILY_LIMIT_DOLLARS,
      enforcement: 'stop_running',
    }),
  })
  if (!response.ok) throw new Error(`the limit was refused: ${await response.text()}`)
}

interface WireUpstream {
  /** Ends in /v1. */
  readonly url: string
  readonly process: ChildProcess
  /** While held, no video is done. */
  hold(isHeld: boolean): Promise<void>
  /** Resolves when all that it sent is in its file. */
  finish(): Promise<void>
}

async function startUpstream(seed: number, path: string, clips: string): Promise<WireUpstream> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'upstream.ts'), String(seed), path, clips], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = `http://127.0.0.1:${Number(line.toString())}/v1`
  return {
    url,
    process: child,
    async hold(isHeld) {
      await fetch(`${url}/${isHeld ? 'hold' : 'release'}`, { method: 'POST' })
    },
    async finish() {
      await fetch(`${url}/finish`, { method: 'POST' })
    },
  }
}

/** What the independent program says of the files of a run. */
export async function recompute(folder: string): Promise<Recomputed> {
  const program = join(import.meta.dirname, 'recompute.py')
  const { stdout } = await promisify(execFile)('python3', ['-B', program, folder], { maxBuffer: 1 << 24 })
  return JSON.parse(stdout)
}
