/** One run: a real server, a provider and random load, and every charge of it recomputed by an independent program. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Database } from '../../src/infra/postgres/database.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { writeMachineCommand } from '../commandMachines.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startRedis } from '../redis.ts'
import { startServer, type TestServer } from '../server.ts'
import { changingPrices } from './changePrices.ts'
import { rentInstances } from './clientInstance.ts'
import { makeClips } from './clips.ts'
import { countOpenVideos, exportCharges, readBalances } from './exportBooks.ts'
import { furnish, withPocketMoney } from './house.ts'
import { type LoadResult, runLoad } from './load.ts'
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

/** The figures that `recompute.py` prints. */
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
  /** Instances, the minutes in which one of their seconds was paid, and these seconds. */
  readonly instances: number
  readonly instance_minutes: number
  readonly instance_seconds: number
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
  /** The result of the server's own verification. */
  readonly agrees: boolean
}

/** The load begins this long before a full minute, at which prices change. */
const BEFORE_EDGE_MS = 4_000
const MINUTE_MS = 60_000
const POLL_MS = 100

/** Of what the server's verification finds. */
const SHOWN_CHARACTERS = 2_000

export async function runOnce(options: RunOptions): Promise<RunResult> {
  const { seed, folder, processes, report = () => {} } = options
  const file = (name: string) => join(folder, name)
  await makeClips(file('clips'))
  const provider = await startProvider(seed, file('sent.jsonl'), file('clips'))
  const edgeMs = Math.ceil((Date.now() + BEFORE_EDGE_MS) / MINUTE_MS) * MINUTE_MS
  const urls = { provider: provider.url, machineCommand: await writeMachineCommand(await madeFolder(file('machines'))) }
  const settings = settingsText(seed, edgeMs, urls, false)
  const laterSettings = settingsText(seed, edgeMs, urls, true)
  await writeFile(file('settings.json'), settings)
  await writeFile(file('settings-later.json'), laterSettings)
  const redis = await startRedis()
  const environment = { TOLLGATE_PROCESSES: String(processes), REDIS_URL: redis.url }
  let server = await startServer({ settings, environment })
  const work = async (): Promise<RunResult> => {
    const house = await onDatabase(server, (database) => furnish(database, server.url))
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, edgeMs - BEFORE_EDGE_MS - Date.now())))
    const { url } = server
    const onProgress = (done: number) => report(`${done} calls`)
    const run = () => runLoad({ ...options, ...house, url, path: file('received.jsonl'), onProgress })
    const renting = rentInstances({ seed, url, keys: house.keys, path: file('instances.jsonl') })
    renting.catch(() => {})
    const { dataDir } = server
    const settingsPath = join(dataDir, 'tollgate.yaml')
    const changing = { url, key: house.admin.key, settingsPath, settings: laterSettings, hold: provider.hold }
    const { result: load, change } = await onDatabase(server, (database) => {
      const countOpen = () => countOpenVideos(database)
      return withPocketMoney(database, url, house, () => changingPrices({ ...changing, countOpen }, run))
    })
    await writeFile(file('change.json'), JSON.stringify(change))
    await onDatabase(server, (database) => untilNoVideos(database))
    await renting
    report(`${options.calls} calls in ${load.seconds.toFixed(0)} s`)
    // A stop that ends well has posted every charge; a new start folds in what the old processes had.
    const exitCode = await server.stop()
    if (exitCode !== 0) throw new Error(`the server ended with ${exitCode}: ${server.errors()}`)
    await provider.finish()
    server = await startServer({ settings, dataDir })
    const granted = house.granted
    await onDatabase(server, async (database) => {
      report(`${await exportCharges(database, file('charges.jsonl'))} charges`)
      const balances = await readBalances(database, [...granted.keys()])
      const capped = house.admin.organizationId
      const accounts = balances.map((each) => ({
        ...each,
        granted: String(granted.get(each.organizationId)),
        dailyLimit: each.organizationId === capped ? String(BigInt(house.dailyLimitCents) * MICROCENTS_PER_CENT) : null,
      }))
      await writeFile(file('accounts.json'), JSON.stringify(accounts))
    })
    const recomputed = await recompute(folder)
    report('recomputed')
    const agrees = await server.command('ledger', 'verify').then(
      (books) => books['agrees'] === true,
      (error) => {
        report(String(error).slice(0, SHOWN_CHARACTERS))
        return false
      },
    )
    return { load, recomputed, agrees }
  }
  try {
    return await Promise.race([work(), stopped(options.signal)])
  } finally {
    await server.remove()
    provider.process.kill('SIGKILL')
    await redis.kill()
    await rm(file('recompute.sqlite'), { force: true })
  }
}

async function madeFolder(path: string): Promise<string> {
  await mkdir(path)
  return path
}

/** Jobs whose clients have left go on: a charge that came later would be in one file and not in the other. */
async function untilNoVideos(database: Database): Promise<void> {
  const untilMs = Date.now() + 2 * MINUTE_MS
  while ((await countOpenVideos(database)) > 0) {
    if (Date.now() > untilMs) throw new Error('there are videos that do not come to an end')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
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

interface WireProvider {
  /** Ends in /v1. */
  readonly url: string
  readonly process: ChildProcess
  /** While held, no video is done. */
  hold(isHeld: boolean): Promise<void>
  /** Resolves when all that it sent is in its file. */
  finish(): Promise<void>
}

async function startProvider(seed: number, path: string, clips: string): Promise<WireProvider> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'provider.ts'), String(seed), path, clips], {
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

/** Runs the independent program over the files of a run, and returns its figures. */
export async function recompute(folder: string): Promise<Recomputed> {
  const program = join(import.meta.dirname, 'recompute.py')
  const { stdout } = await promisify(execFile)('python3', ['-B', program, folder], { maxBuffer: 1 << 24 })
  return JSON.parse(stdout)
}
