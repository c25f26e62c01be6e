/** The values of flags and variables, each held against its rules. What is wrong is told to `reject`, a line for the operator. */

import { isIP } from 'node:net'
import { parseNetwork } from '../kernel/networks.ts'
import { Secret } from '../kernel/secret.ts'
import type { Environment } from './settingsFile.ts'

/** Told each problem; the configuration is not used then, so whatever is returned beside it does not matter. */
export type Reject = (problem: string) => void

export const DEFAULT_HOST = '127.0.0.1'

/** What was given, by whichever way. */
export interface Given {
  readonly value: string
  /** What the operator would have to change. */
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
  reject(`${from}: '${value}' is no port: give a number from 1 to 65535, or 0 for any free port`)
  return 0
}

/** More than any machine has cores for; each takes connections of the database. */
const PROCESSES_MAX = 64

/** How many gateway processes: at least 1. */
export function readProcesses({ value, from }: Given, reject: Reject): number {
  const processes = /^\d{1,3}$/.test(value) ? Number(value) : 0
  if (processes >= 1 && processes <= PROCESSES_MAX) return processes
  reject(
    `${from}: '${value}' is no number of processes: give one from 1 to ${PROCESSES_MAX}, such as that of the cores`,
  )
  return 1
}

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i

/** An address or a name to listen on, without a port. */
export function readHost({ value, from }: Given, reject: Reject): string {
  // All digits and dots that are no address (127.0.0, 1.2.3.4.5) are a slip, not a name.
  const isName = HOST_NAME.test(value) && !/^[\d.]+$/.test(value)
  if (isIP(value) !== 0 || isName) return value
  reject(`${from}: '${value}' is no address: give one such as 127.0.0.1, 0.0.0.0 or ::1, without port and brackets`)
  return DEFAULT_HOST
}

/** Of an external PostgreSQL; null: the embedded one. */
export function readDatabaseUrl(environment: Environment, reject: Reject): Secret | null {
  const text = environment['DATABASE_URL']
  if (text === undefined || text === '') return null
  // It may hold a password, so it is never quoted.
  if (URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol)) return new Secret(text)
  reject(
    'DATABASE_URL: must be an address such as postgres://user:password@host:5432/database; unset it for the embedded server',
  )
  return null
}

/** 64 hex digits; null: a generated key. */
export function readDataKey(environment: Environment, reject: Reject): Secret | null {
  const text = environment['TOLLGATE_DATA_KEY']
  if (text === undefined || text === '') return null
  if (/^[0-9a-f]{64}$/i.test(text)) return new Secret(text)
  reject(
    "TOLLGATE_DATA_KEY: must be 64 hex digits, such as 'openssl rand -hex 32' prints; unset it for a generated key",
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

/** Networks that webhooks may reach, separated by commas; null where none are set. */
export function readNetworks(text: string | undefined, reject: Reject): readonly string[] | null {
  if (text === undefined || text === '') return null
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.some((entry) => parseNetwork(entry) === null))
    reject('TOLLGATE_WEBHOOK_ALLOW: must be networks or addresses separated by commas, such as 127.0.0.0/8')
  return entries
}
