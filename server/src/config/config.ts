import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Discovered } from '../catalog/discovered.ts'
import {
  DEFAULT_SETTINGS,
  describeProblem,
  LOCAL_PAYMENTS,
  LOCAL_PLAN,
  LOG_LEVELS,
  type Settings,
} from '../catalog/settings.ts'
import type { SettingsSource } from '../catalog/watch.ts'
import type { Environment } from '../lib/environment.ts'
import { isLoopback } from '../lib/loopback.ts'
import type { Secret } from '../lib/secret.ts'
import { type Overrides, settingsSource } from './settingsFile.ts'
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
} from './values.ts'

/** Flags as `parseArgs` of `node:util` gives them; those not given are absent. */
export interface ConfigFlags {
  readonly port?: string | undefined
  readonly host?: string | undefined
  readonly 'data-dir'?: string | undefined
  readonly config?: string | undefined
  readonly 'admin-port'?: string | undefined
  readonly processes?: string | undefined
}

/**
 * The variable {@link MEMBER_VARIABLE} as one of several processes reads it; the process that starts them writes it.
 */
export interface Member {
  /** It makes the first key and says what is served. */
  readonly isFirst: boolean
  /** It opens the port of apps. The same process of the group has it at every start. */
  readonly hasAppPort: boolean
  /** True when a person reads what the group prints. */
  readonly stdoutIsTerminal: boolean
  /**
   * The data directory of the group, absolute: the files that all processes must find are there, and not in their
   * own.
   */
  readonly sharedDirectory: string
  readonly discovered: readonly Discovered[]
  /** True when its database is the embedded one of the group. */
  readonly isEmbedded: boolean
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
  /** The settings file; null where there was none at the start. */
  readonly source: SettingsSource | null
  /** The settings file that is read when it is made or changes. Null: none is. */
  readonly watched: SettingsSource | null
  /** Where the settings file is, or would be. Absolute. */
  readonly settingsPath: string
  /** The settings file's stamp from before it was read. */
  readonly stamp: string | null
  readonly settings: Settings
  /**
   * The environment that this process was started with; engines get the part of it that drivers need. A function: no
   * dump shows it.
   */
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

/** The environment of this process, for programs that it starts. */
export const ownEnvironment = (): Environment => process.env

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
  const { fileName, path: settingsPath, isThere } = findSettings(flags, environment, workingDirectory, reject)
  const watched = settingsSource(fileName, settingsPath, { environment, host, isShared }, overrides)
  const source = isThere ? watched : null
  const stamp = (await source?.stamp()) ?? null
  const read = await loadFirst(source, overrides, reject)
  const isEmbedded = member?.isEmbedded ?? databaseUrl === null
  const settings = source === null && isLoopback(host) && isEmbedded ? withLocalPayments(read) : read
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
      watched,
      settingsPath,
      stamp,
      settings,
      environment: () => environment,
    },
  }
}

/**
 * Without a settings file, whoever tries Tollgate on one machine can try payments too: test mode, no real money. An external database is
 * no trial: there the file is missing.
 */
function withLocalPayments(settings: Settings): Settings {
  return { ...settings, plans: [LOCAL_PLAN], fixed: { ...settings.fixed, payments: LOCAL_PAYMENTS } }
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
 * providers' credentials, and while the settings file is broken.
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

/** Where the settings file is. One that is named must be there. */
function findSettings(flags: ConfigFlags, environment: Environment, workingDirectory: string, reject: Reject) {
  const given = pick(flags.config, '--config', environment, 'TOLLGATE_CONFIG', '')
  const fileName = given.value === '' ? DEFAULT_CONFIG_FILE : given.value
  const path = resolve(workingDirectory, fileName)
  const isThere = existsSync(path)
  if (!isThere && given.value !== '') reject(`${given.from}: there is no file ${fileName}`)
  return { fileName, path, isThere }
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
