import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Discovered } from './catalog/discovered.ts'
import { DEFAULT_SETTINGS, describeProblem, LOG_LEVELS, type Settings } from './catalog/settings.ts'
import type { SettingsSource } from './catalog/watch.ts'
import { type Environment, type Overrides, settingsSource } from './config/settingsFile.ts'
import {
  DEFAULT_HOST,
  pick,
  type Reject,
  readDatabaseUrl,
  readDataKey,
  readHost,
  readNetworks,
  readPort,
  readProcesses,
  readRedisUrl,
} from './config/values.ts'
import { Secret } from './kernel/secret.ts'

/** The only reader of the environment and of the settings file. A flag wins over a variable, a variable over the file. */

export type { Environment } from './config/settingsFile.ts'

/** Flags as `parseArgs` of `node:util` gives them; those not given are absent. */
export interface ConfigFlags {
  readonly port?: string | undefined
  readonly host?: string | undefined
  readonly 'data-dir'?: string | undefined
  readonly config?: string | undefined
  readonly 'admin-port'?: string | undefined
  readonly processes?: string | undefined
}

/** What a process of several is told by the one that started it, in the variable {@link MEMBER_VARIABLE}. */
export interface Member {
  /** It makes the first key and says what is served. */
  readonly isFirst: boolean
  /** The data directory of the group, absolute: what all processes must find is there, and not in their own. */
  readonly sharedDirectory: string
  readonly discovered: readonly Discovered[]
}

export const MEMBER_VARIABLE = 'TOLLGATE_MEMBER'

export interface Config {
  /** Absolute. */
  readonly dataDirectory: string
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** On the loopback address, without a key. 0: any free port. */
  readonly adminPort: number
  /** Gateway processes that share the port; at least 1. */
  readonly processes: number
  /** Set in a process that another one started to share its port. */
  readonly member: Member | null
  /** Of an external PostgreSQL; null: the embedded one. */
  readonly databaseUrl: Secret | null
  /** 64 hex digits; null: the file beneath the data directory. */
  readonly dataKey: Secret | null
  /** Of the Redis or Valkey in which processes share the limits of keys; null: this process has its own. */
  readonly redisUrl: Secret | null
  /** The settings file; null where there is none. */
  readonly source: SettingsSource | null
  /** The settings file's stamp from before it was read. */
  readonly stamp: string | null
  readonly settings: Settings
  /** What this process was started with; engines get the part of it that drivers need. A function: no dump shows it. */
  readonly environment: () => Environment
}

/** A configuration to start with, or all that is wrong with it, a line each, for the operator. */
export type LoadedConfig =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problems: readonly string[] }

const DEFAULT_CONFIG_FILE = 'tollgate.yaml'
const DEFAULT_DATA_DIRECTORY = '.tollgate'
const DEFAULT_PORT = '8080'
const DEFAULT_ADMIN_PORT = '9464'

/** Reads flags, environment and settings file. */
export async function loadConfig(
  flags: ConfigFlags,
  environment: Environment = process.env,
  workingDirectory: string = process.cwd(),
): Promise<LoadedConfig> {
  const problems: string[] = []
  const reject = (problem: string) => problems.push(problem)
  const host = readHost(pick(flags.host, '--host', environment, 'TOLLGATE_HOST', DEFAULT_HOST), reject)
  const port = readPort(pick(flags.port, '--port', environment, 'TOLLGATE_PORT', DEFAULT_PORT), reject)
  const adminGiven = pick(flags['admin-port'], '--admin-port', environment, 'TOLLGATE_ADMIN_PORT', DEFAULT_ADMIN_PORT)
  const adminPort = readPort(adminGiven, reject)
  const processes = readProcesses(pick(flags.processes, '--processes', environment, 'TOLLGATE_PROCESSES', '1'), reject)
  const member: Member | null = environment[MEMBER_VARIABLE] ? JSON.parse(environment[MEMBER_VARIABLE]) : null
  if (port === adminPort && port !== 0) reject(`${adminGiven.from}: must differ from the port, ${port}`)
  const directory = readDataDirectory(flags, environment, reject)
  const databaseUrl = readDatabaseUrl(environment, reject)
  const dataKey = readDataKey(environment, reject)
  const redisUrl = readRedisUrl(environment, reject)
  if (processes > 1 && !environment['REDIS_URL']) reject(LIMITS_UNSHARED)
  const overrides = readOverrides(environment, reject)
  const isShared = processes > 1 || member !== null
  const source = openSource(flags, environment, workingDirectory, overrides, isShared, reject)
  const stamp = (await source?.stamp()) ?? null
  const settings = await loadFirst(source, overrides, reject)
  if (problems.length > 0) return { ok: false, problems }
  const dataDirectory = resolve(workingDirectory, directory)
  return {
    ok: true,
    config: {
      dataDirectory,
      host,
      port,
      adminPort,
      processes: member === null ? processes : 1,
      member,
      databaseUrl,
      dataKey,
      redisUrl,
      source,
      stamp,
      settings,
      environment: () => environment,
    },
  }
}

/** A running server, as commands talk to it. */
export interface RemoteServer {
  /** Without a path or a trailing slash. */
  readonly url: string
  /** What the customer's key may do is what the commands may do. */
  readonly key: Secret
}

/** Reads which server a command talks to, and with which API key. */
export function locateServer(
  url: string | undefined,
  environment: Environment = process.env,
): { readonly ok: true; readonly server: RemoteServer } | { readonly ok: false; readonly problems: readonly string[] } {
  const problems: string[] = []
  const given = pick(url, '--server', environment, 'TOLLGATE_URL', `http://${DEFAULT_HOST}:${DEFAULT_PORT}`)
  const key = environment['TOLLGATE_API_KEY'] ?? ''
  if (!/^https?:\/\/[^\s/?#@]+(\/v1)?\/?$/i.test(given.value))
    problems.push(`${given.from}: must be a server's address, such as https://api.example.com or http://127.0.0.1:8080`)
  if (key === '')
    problems.push(
      "TOLLGATE_API_KEY: must hold an API key; 'tollgate keys create --org NAME --scope full_access' makes one",
    )
  else if (!/^[\x21-\x7e]+$/.test(key)) problems.push('TOLLGATE_API_KEY: holds characters that no key has')
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, server: { url: given.value.replace(/(\/v1)?\/?$/i, ''), key: new Secret(key) } }
}

/** Where the installation's data are. */
export interface Location {
  /** Absolute. */
  readonly dataDirectory: string
  /** Of an external PostgreSQL; null: the embedded one. */
  readonly databaseUrl: Secret | null
}

/**
 * Reads only where the data are. For commands on the database, which must work (revoke a key!) in a shell without the
 * upstreams' credentials, and while the settings file is broken.
 */
export function locateData(
  flags: ConfigFlags,
  environment: Environment = process.env,
  workingDirectory: string = process.cwd(),
): { readonly ok: true; readonly location: Location } | { readonly ok: false; readonly problems: readonly string[] } {
  const problems: string[] = []
  const reject = (problem: string) => problems.push(problem)
  const directory = readDataDirectory(flags, environment, reject)
  const databaseUrl = readDatabaseUrl(environment, reject)
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, location: { dataDirectory: resolve(workingDirectory, directory), databaseUrl } }
}

function readDataDirectory(flags: ConfigFlags, environment: Environment, reject: Reject): string {
  const directory = pick(flags['data-dir'], '--data-dir', environment, 'TOLLGATE_DATA_DIR', DEFAULT_DATA_DIRECTORY)
  if (directory.value === '') reject(`${directory.from}: must be the path of a folder`)
  return directory.value
}

/** Each process by itself would let a key send all that it may. */
const LIMITS_UNSHARED =
  'several processes share the rate limits of keys through Redis or Valkey: set REDIS_URL, such as redis://127.0.0.1:6379, or run one process'

/** Settings of the file that the environment may set instead; they hold through every reload too. */
function readOverrides(environment: Environment, reject: Reject): Overrides {
  const discovery = environment['TOLLGATE_DISCOVERY'] || undefined
  const logLevel = environment['TOLLGATE_LOG_LEVEL'] || undefined
  const endpoint = environment['OTEL_EXPORTER_OTLP_ENDPOINT'] || undefined
  if (endpoint !== undefined && !/^https?:\/\/[^\s?#@]+$/.test(endpoint))
    reject('OTEL_EXPORTER_OTLP_ENDPOINT: must be an address such as http://127.0.0.1:4318')
  const level = LOG_LEVELS.find((each) => each === logLevel)
  if (discovery !== undefined && discovery !== 'on' && discovery !== 'off')
    reject("TOLLGATE_DISCOVERY: must be 'on' or 'off'")
  if (logLevel !== undefined && level === undefined)
    reject(`TOLLGATE_LOG_LEVEL: must be one of ${LOG_LEVELS.join(', ')}`)
  const allow = readNetworks(environment['TOLLGATE_WEBHOOK_ALLOW'], reject)
  return (settings) => ({
    ...settings,
    fixed: {
      ...settings.fixed,
      discovery: discovery === undefined ? settings.fixed.discovery : discovery === 'on',
      logLevel: level ?? settings.fixed.logLevel,
      webhooks: { ...settings.fixed.webhooks, allow: allow ?? settings.fixed.webhooks.allow },
      otlp:
        endpoint === undefined
          ? settings.fixed.otlp
          : { traceRatio: 1, ...settings.fixed.otlp, endpoint: endpoint.replace(/\/+$/, '') },
    },
  })
}

function openSource(
  flags: ConfigFlags,
  environment: Environment,
  workingDirectory: string,
  overrides: Overrides,
  isShared: boolean,
  reject: Reject,
): SettingsSource | null {
  const given = pick(flags.config, '--config', environment, 'TOLLGATE_CONFIG', '')
  const fileName = given.value === '' ? DEFAULT_CONFIG_FILE : given.value
  const path = resolve(workingDirectory, fileName)
  if (existsSync(path)) return settingsSource(fileName, path, environment, overrides, isShared)
  if (given.value !== '') reject(`${given.from}: there is no file ${fileName}`)
  return null
}

async function loadFirst(source: SettingsSource | null, overrides: Overrides, reject: Reject): Promise<Settings> {
  if (source === null) return overrides(DEFAULT_SETTINGS)
  try {
    const loaded = await source.load()
    if (loaded.ok) return loaded.settings
    for (const problem of loaded.problems) reject(describeProblem(source.fileName, problem))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : 'unknown'
    reject(`${source.fileName}: can't be read (${String(code)}): is it a file that this user may read?`)
  }
  return DEFAULT_SETTINGS
}
