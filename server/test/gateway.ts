/** The whole gateway in this process, over a database of its own, with a clock that the test may turn. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type App, createApp } from '../src/app/app.ts'
import { loadSettings } from '../src/catalog/load.ts'
import { DEFAULT_SETTINGS, type Settings } from '../src/catalog/settings.ts'
import type { Config } from '../src/config/config.ts'
import { systemClock } from '../src/infra/clock.ts'
import { createLog } from '../src/infra/log.ts'
import { toAddress } from '../src/infra/postgres/address.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { Secret } from '../src/lib/secret.ts'
import type { Clock } from '../src/lib/time.ts'
import type { Provider, VideoWork } from '../src/providers/dialect/spec.ts'
import { CHEAP_PASSWORDS } from './cheapPasswords.ts'
import { type CustomerOptions, makeCustomer, type TestKey } from './customer.ts'
import { type FreshDatabase, freshDatabase } from './postgres.ts'
import { measureTestVideo } from './scriptedVideos.ts'
import { turnedDatabase } from './turnedDatabase.ts'

export type { TestKey } from './customer.ts'

export interface GatewayOptions {
  /** The text of a tollgate.yaml; without it the built-in sandbox models are served. */
  readonly settings?: string
  /** The clock of the process, which is that of its database. */
  readonly clock?: Clock
  /** The database's own clock, where it is another than that of the process. */
  readonly databaseClock?: Pick<Clock, 'now'>
  readonly clockTrouble?: () => string | null
  readonly environment?: Readonly<Record<string, string>>
  /** The file that `settings` are of, which may change. Left out: none does. */
  readonly watched?: Config['watched']
  /** Where it shares its limits with others. */
  readonly redisUrl?: string
  /** The provider that makes all videos, in place of the providers' own ways. */
  readonly videos?: VideoWork
  /** Stands between the gateway and its database, which is at `url`. */
  readonly dressDatabase?: (database: Database, url: string) => Database | Promise<Database>
  /** Opens the pool of reads, which is closed with the gateway. Left out: reads use the database of everything else. */
  readonly openReads?: (url: string) => Database
  /** In hexadecimal digits, as TOLLGATE_DATA_KEY; left out: that of the file in the data directory, which is made. */
  readonly dataKey?: string
  /** Another gateway, on whose database this one works too; close this one first. */
  readonly beside?: { readonly databaseUrl: string; readonly dataDirectory: string }
}

export interface Gateway {
  readonly app: App
  readonly database: Database
  readonly databaseUrl: string
  readonly dataDirectory: string
  /** The lines that were logged, a JSON object each. */
  readonly logs: string[]
  /** Sends a request to a path beneath /v1, or to one of `/manage/`, `/payments/` or `/account`, as if from `address`. */
  send(path: string, init?: RequestInit & { address?: string }): Promise<Response>
  /** The same with a key and a JSON body. */
  post(key: TestKey, path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
  get(key: TestKey, path: string): Promise<Response>
  /** A new organization with so many cents, and a key of it. */
  customer(options?: CustomerOptions): Promise<TestKey>
  close(): Promise<void>
}

/** Builds a gateway. Call `close` in `afterAll`. */
export async function openGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const clock = options.clock ?? systemClock
  const random = systemRandom()
  const { database: real, url, drop } = await (options.beside ? sharedDatabase(options.beside) : freshDatabase())
  const { databaseClock = options.clock } = options
  const database = databaseClock === undefined ? real : turnedDatabase(real, databaseClock)
  const dataDirectory = options.beside?.dataDirectory ?? (await mkdtemp(join(tmpdir(), 'tollgate-test-')))
  const logs: string[] = []
  const reads = options.openReads?.(url)
  const app = await createApp({
    config: {
      dataDirectory,
      host: '127.0.0.1',
      port: 0,
      adminPort: 0,
      processes: 1,
      member: null,
      databaseUrl: null,
      dataKey: options.dataKey === undefined ? null : new Secret(options.dataKey),
      redisUrl: options.redisUrl === undefined ? null : new Secret(options.redisUrl),
      source: null,
      watched: options.watched ?? null,
      settingsPath: '/nowhere/tollgate.yaml',
      stamp: null,
      settings: settingsOf(options),
      environment: () => ({}),
    },
    database: (await options.dressDatabase?.(database, url)) ?? database,
    ...(reads === undefined ? {} : { reads }),
    databaseAddress: toAddress(url),
    token: null,
    alone: true,
    ...(options.videos === undefined
      ? {}
      : { videos: { measureSeconds: measureTestVideo, wrap: wrappedWith(options.videos) } }),
    passwordHash: CHEAP_PASSWORDS,
    discovered: [],
    clock,
    ...(options.clockTrouble === undefined ? {} : { clockTrouble: options.clockTrouble }),
    random,
    log: createLog('debug', { write: (line) => void logs.push(line) }),
    onFatal: (reason) => {
      throw new Error(reason)
    },
  })

  const send: Gateway['send'] = async (path, init = {}) => {
    const { address = '127.0.0.1', ...rest } = init
    const base = /^\/(manage|payments|account)(\/|$)/.test(path) ? '' : '/v1'
    const request = new Request(`http://gateway.test${base}${path}`, rest)
    return app.handle(request, { address, setIdleTimeout: () => {} })
  }
  return {
    app,
    database,
    databaseUrl: url,
    dataDirectory,
    logs,
    ...callsBy(send),
    customer: (customer) => makeCustomer(database, customer, clock),
    async close() {
      await app.drain()
      await app.close()
      await reads?.close()
      await drop()
      if (options.beside === undefined) await rm(dataDirectory, { recursive: true, force: true })
    },
  }
}

/** The ways to call a gateway, by the one that sends. */
export function callsBy(send: Gateway['send']): Pick<Gateway, 'send' | 'post' | 'get'> {
  return {
    send,
    post: ({ key }, path, body, headers = {}) =>
      send(path, {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    get: ({ key }, path) => send(path, { headers: { Authorization: `Bearer ${key}` } }),
  }
}

/** The same client gives the same one: health is kept by it. */
function wrappedWith(video: VideoWork) {
  const dressed = new WeakMap<Provider, Provider>()
  return (provider: Provider): Provider => {
    const known = dressed.get(provider) ?? { ...provider, video }
    dressed.set(provider, known)
    return known
  }
}

async function sharedDatabase({ databaseUrl: url }: { databaseUrl: string }): Promise<FreshDatabase> {
  const database = openClient(url, { maxConnections: 4, clock: systemClock, applicationName: 'beside' })
  return { database, url, drop: () => database.close() }
}

function settingsOf({ settings, environment = {} }: GatewayOptions): Settings {
  if (settings === undefined) return unhurried(DEFAULT_SETTINGS)
  const loaded = loadSettings(settings, { environment, directory: '/', fileExists: () => true })
  // A test that names no rate limit is not about it, and sends as fast as it can.
  if (loaded.ok) return settings.includes('rate_limit') ? loaded.settings : unhurried(loaded.settings)
  throw new Error(loaded.problems.map(({ line, path, reason }) => `${line}: ${path}: ${reason}`).join('\n'))
}

function unhurried(settings: Settings): Settings {
  const limit = { perSecond: 10_000, burst: 1_000_000 }
  return { ...settings, fixed: { ...settings.fixed, rateLimit: limit, newAccountRateLimit: limit } }
}
