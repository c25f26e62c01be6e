/**
 * The values of flags and variables, each held against its rules. `reject` is told of each mistake, a line for the
 * operator.
 */

import { isIP } from 'node:net'
import { readHosts, TARGET } from '../infra/postgres/address.ts'
import type { Environment } from '../lib/environment.ts'
import { parseNetwork } from '../lib/networks.ts'
import { Secret } from '../lib/secret.ts'

/** Told each problem; the configuration is not used then, so whatever is returned beside it does not matter. */
export type Reject = (problem: string) => void

export const DEFAULT_HOST = '127.0.0.1'

/** A value that the operator gave, or its preset. */
export interface Given {
  readonly value: string
  /** The name of the flag or variable that the operator would have to change. */
  readonly from: string
}

/** A flag wins over a variable, a variable over the preset; an empty variable is none. */
export function pick(
  flag: string | undefined,
  flagName: string,
  environment: Environment,
  variable: string,
  preset: string,
): Given {
  if (flag !== undefined) return { value: flag, from: flagName }
  const set = environment[variable]
  return set === undefined || set === '' ? { value: preset, from: flagName } : { value: set, from: variable }
}

/** 0 is any free port. */
export function readPort({ value, from }: Given, reject: Reject): number {
  const port = /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN
  if (port <= 65_535) return port
  reject(`${from}: '${value}' is not a port: use a number from 1 to 65535, or 0 for any free port`)
  return 0
}

/** More than any machine has cores for; each takes connections of the database. */
const PROCESSES_MAX = 64

/** Returns the number of gateway processes: at least 1. */
export function readProcesses({ value, from }: Given, reject: Reject): number {
  const processes = /^\d{1,3}$/.test(value) ? Number(value) : 0
  if (processes >= 1 && processes <= PROCESSES_MAX) return processes
  reject(`${from}: '${value}' is not a number of processes: use 1 to ${PROCESSES_MAX}, such as one for each core`)
  return 1
}

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i

/** An address or a name to listen on, without a port. */
export function readHost({ value, from }: Given, reject: Reject): string {
  // All digits and dots that are no address (127.0.0, 1.2.3.4.5) are a slip, not a name.
  const isName = HOST_NAME.test(value) && !/^[\d.]+$/.test(value)
  if (isIP(value) !== 0 || isName) return value
  reject(`${from}: '${value}' is not an address: use one such as 127.0.0.1, 0.0.0.0 or ::1, without port and brackets`)
  return DEFAULT_HOST
}

/** Of an external PostgreSQL; null: the embedded one. */
export function readDatabaseUrl(environment: Environment, reject: Reject): Secret | null {
  const text = environment['DATABASE_URL']
  if (text === undefined || text === '') return null
  // It may hold a password, so it is never quoted.
  const hosts = readHosts(text)
  if (hosts === null) {
    reject(
      'DATABASE_URL: must be an address such as postgres://user:password@host:5432/database?sslmode=verify-full; ' +
        'unset it for the embedded server',
    )
    return null
  }
  const urls = hosts.urls.map((each) => new URL(each))
  const isWritable = hosts.targets.length === 1 && hosts.targets[0] === TARGET
  if (!isWritable && (urls.length > 1 || hosts.targets.length > 0)) reject(`DATABASE_URL: ${TARGET_MISSING}`)
  const modes = urls[0]?.searchParams.getAll('sslmode') ?? []
  const isKnown = modes.length === 1 && SSL_MODES.some((mode) => mode === modes[0])
  if (modes.length > 0 && !isKnown)
    reject(`DATABASE_URL: sslmode must be given once, as one of ${SSL_MODES.join(', ')}`)
  if (modes.length === 0 && !urls.every((url) => isDatabaseHere(url, environment)))
    reject(`DATABASE_URL: ${SSL_MODE_MISSING}`)
  return new Secret(text)
}

const SSL_MODES = ['verify-full', 'verify-ca', 'require', 'prefer', 'allow', 'disable'] as const

/** Standbys answer reads; Tollgate writes. */
const TARGET_MISSING =
  `of several hosts Tollgate uses the one that takes writes: append ?target_session_attrs=${TARGET} (&target_session_attrs=… after ` +
  'other parameters), once, and no other value'

/** Without a mode nothing is encrypted, and a password on its way is one for whoever listens. */
const SSL_MODE_MISSING =
  'is on another host, and does not say whether the connection is encrypted: append ?sslmode=verify-full ' +
  "(&sslmode=… after other parameters); or sslmode=require, if the server's certificate can't be checked; " +
  'or sslmode=disable, if nobody can listen on the network in between'

/** Returns whether the way to the database stays within this machine: a loopback address, or the folder of a socket. */
function isDatabaseHere(url: URL, environment: Environment): boolean {
  const hosts = [...url.searchParams.getAll('host'), ...url.searchParams.getAll('hostaddr')]
  const named = hosts.length > 0 ? hosts : [url.hostname || environment['PGHOST'] || 'localhost']
  return named.every((host) => {
    const name = decodeURIComponentOrSame(host)
    return name.startsWith('/') || isLoopback(name)
  })
}

/** Returns whether the host of an address is this machine. */
function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'))
}

/** The host of a socket's folder is written `%2Ftmp`. */
function decodeURIComponentOrSame(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** 64 hex digits, or several such keys separated by commas, while they rotate; null: a generated key. */
export function readDataKey(environment: Environment, reject: Reject): Secret | null {
  const text = environment['TOLLGATE_DATA_KEY']
  if (text === undefined || text === '') return null
  if (/^[0-9a-f]{64}(\s*,\s*[0-9a-f]{64}){0,7}$/i.test(text)) return new Secret(text)
  reject(
    "TOLLGATE_DATA_KEY: must be 64 hex digits, such as 'openssl rand -hex 32' prints, or OLD,NEW while keys rotate; unset it for a generated key",
  )
  return null
}

/** Of Redis or Valkey; null: this process has limits of its own. */
export function readRedisUrl(environment: Environment, reject: Reject): Secret | null {
  const text = environment['REDIS_URL']
  if (text === undefined || text === '') return null
  // It may hold a password, so it is never quoted.
  if (URL.canParse(text) && /^rediss?:$/.test(new URL(text).protocol)) return new Secret(text)
  reject('REDIS_URL: must be an address such as redis://:password@host:6379, or rediss:// for TLS')
  return null
}

/** Returns whether a password goes to Redis on another machine without TLS, so that whoever listens in between has it. */
export function sendsPasswordInClear(redisUrl: Secret): boolean {
  const url = new URL(redisUrl.reveal())
  return url.protocol === 'redis:' && url.password !== '' && !isLoopback(url.hostname)
}

/** Networks that webhooks may reach, separated by commas; null where none are set. */
export function readNetworks(text: string | undefined, reject: Reject): readonly string[] | null {
  if (text === undefined || text === '') return null
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.some((entry) => parseNetwork(entry) === null))
    reject('TOLLGATE_WEBHOOK_ALLOW: must be networks or addresses separated by commas, such as 127.0.0.0/8')
  return entries
}
