import { Secret } from '../../server/src/lib/secret.ts'
import { CliFailure, LoginNeeded, UsageMistake } from './failure.ts'
import { sayNotice } from './notice.ts'
import type { System } from './system.ts'

/** Which server a command talks to, and with which key. The key is never an option: other users of the machine see options. */

const DEFAULT_SERVER = 'http://127.0.0.1:8080'
export const KEY_VARIABLE = 'TOLLGATE_API_KEY'
const SERVER_VARIABLE = 'TOLLGATE_URL'

/** The most servers that a file of logins holds, so that the file stays small. */
const SERVERS_MAX = 100
const KEY = /^[\x21-\x7e]{1,256}$/

/** Where a key comes from. */
export type KeySource = 'environment' | 'keychain' | 'file'

export interface KeyWithSource {
  readonly key: Secret
  readonly source: KeySource
  /**
   * True when a login by browser made the key for this machine: it is revoked by the logout. Others may be used
   * elsewhere too.
   */
  readonly isOwn: boolean
}

type KeptKey = ({ readonly in: 'keychain' } | { readonly in: 'file'; readonly key: string }) & { readonly own?: true }

interface Logins {
  /** The server of the last login that there still is. */
  readonly server: string | null
  /** By the server's address. A key is sent to its own server only. */
  readonly keys: Readonly<Record<string, KeptKey>>
}

/** Returns the server's address without `/v1`: of `--server`, else of `TOLLGATE_URL`, else of the last login, else this machine's. */
export async function serverUrlOf(system: System, given: string | undefined): Promise<string> {
  if (given !== undefined) return readUrl(given, '--server')
  const variable = system.environment[SERVER_VARIABLE] ?? ''
  if (variable !== '') return readUrl(variable, SERVER_VARIABLE)
  return (await readLogins(system)).server ?? DEFAULT_SERVER
}

/** Returns the command that logs in to a server: with `--server` where a command without it would ask another one. */
export async function loginHint(system: System, url: string): Promise<string> {
  // A variable or a file that can't be read must not hide what the hint is for.
  const preset = await serverUrlOf(system, undefined).catch(() => null)
  return preset === url ? 'tollgate login' : `tollgate login --server ${url}`
}

/** Returns the key for a server: of the environment, else of its login; null when there is none. */
export async function findKey(system: System, url: string): Promise<KeyWithSource | null> {
  const variable = system.environment[KEY_VARIABLE] ?? ''
  if (variable === '') return findKept(system, url)
  const key = readKey(variable, KEY_VARIABLE)
  await warnOfLoginsServer(system, url)
  return { key, source: 'environment', isOwn: false }
}

/** Systems that were warned: a command may ask a server many times. */
const warned = new WeakSet<System>()

/** Says where a key of the environment goes, where the environment does not: the key may be of another server. */
async function warnOfLoginsServer(system: System, url: string): Promise<void> {
  if ((system.environment[SERVER_VARIABLE] ?? '') !== '' || warned.has(system)) return
  // A file that can't be read must not keep a command from working without it.
  const logins = await readLogins(system).catch(() => null)
  if (logins?.server !== url) return
  warned.add(system)
  const message = `tollgate: the key in ${KEY_VARIABLE} is sent to ${url}, the server of the last login; say the key's own server in ${SERVER_VARIABLE}`
  sayNotice(system, { code: 'key_goes_to_last_login', message, fields: { server: url } })
}

/** Returns the key of the login to a server; null when there is none. */
export async function findKept(system: System, url: string): Promise<KeyWithSource | null> {
  const kept = (await readLogins(system)).keys[url]
  if (kept === undefined) return null
  const isOwn = kept.own === true
  if (kept.in === 'file') return { key: readKey(kept.key, system.logins.path), source: 'file', isOwn }
  const keychain = await system.openKeychain()
  const secret = await keychain?.get(url).catch((error: unknown) => {
    throw new CliFailure(`the keychain can't be read (${wordsOf(error)}): unlock it, or set ${KEY_VARIABLE}`)
  })
  if (secret === undefined || secret === null) {
    throw new LoginNeeded(`the keychain has no key for ${url} any more: log in with "${await loginHint(system, url)}"`)
  }
  return { key: readKey(secret, 'the keychain'), source: 'keychain', isOwn }
}

/** Returns whether a login by browser made the key that is kept for a server. Asks no keychain. */
export async function hasOwnKey(system: System, url: string): Promise<boolean> {
  return (await readLogins(system)).keys[url]?.own === true
}

/** Returns the key for a server; throws {@link LoginNeeded} when there is none. */
export async function keyFor(system: System, url: string): Promise<Secret> {
  const found = await findKey(system, url)
  if (found !== null) return found.key
  throw new LoginNeeded(
    `there is no API key for ${url}: set ${KEY_VARIABLE}, or log in with "${await loginHint(system, url)}"`,
  )
}

/**
 * Keeps a key for a server, in the keychain where there is one that works, else in the file; the server is the preset from now on.
 * `isOwn` as in {@link KeyWithSource}. Returns where it is.
 */
export async function keepKey(
  system: System,
  url: string,
  key: Secret,
  isOwn = false,
): Promise<Exclude<KeySource, 'environment'>> {
  return await storeKey(system, url, key, isOwn, () => url)
}

/** Keeps another key for a server that has one; the preset stays. */
export async function replaceKey(system: System, url: string, key: Secret, isOwn: boolean): Promise<void> {
  await storeKey(system, url, key, isOwn, (preset) => preset)
}

async function storeKey(
  system: System,
  url: string,
  key: Secret,
  isOwn: boolean,
  presetOf: (before: string | null) => string | null,
): Promise<KeptKey['in']> {
  const keychain = await system.openKeychain()
  const isInKeychain =
    keychain !== null &&
    (await keychain.set(url, key.reveal()).then(
      () => true,
      () => false,
    ))
  const { server, keys } = await readLogins(system)
  const place = isInKeychain ? ({ in: 'keychain' } as const) : ({ in: 'file', key: key.reveal() } as const)
  const kept: KeptKey = isOwn ? { ...place, own: true } : place
  const others = Object.entries(keys).filter(([each]) => each !== url)
  if (others.length >= SERVERS_MAX) throw new CliFailure(`${system.logins.path} has too many logins: log out of some`)
  await writeLogins(system, { server: presetOf(server), keys: { ...Object.fromEntries(others), [url]: kept } })
  return kept.in
}

/** A login of this machine. */
export interface LoginPlace {
  readonly server: string
  readonly stored_in: KeptKey['in']
}

/** Returns the logins of this machine in the order in which they were made. Asks neither server nor keychain. */
export async function listLogins(system: System): Promise<LoginPlace[]> {
  const { keys } = await readLogins(system)
  return Object.entries(keys).map(([server, kept]) => ({ server, stored_in: kept.in }))
}

/** Forgets the key of a server. Returns whether there was one. */
export async function forgetKey(system: System, url: string): Promise<boolean> {
  const { server, keys } = await readLogins(system)
  const kept = keys[url]
  if (kept === undefined) return false
  if (kept.in === 'keychain') {
    const keychain = await system.openKeychain()
    await keychain?.remove(url).catch((error: unknown) => {
      throw new CliFailure(`the keychain does not give up the key (${wordsOf(error)}): unlock it and try again`)
    })
  }
  const others = Object.fromEntries(Object.entries(keys).filter(([each]) => each !== url))
  await writeLogins(system, { server: server === url ? null : server, keys: others })
  return true
}

/** Reads a key as it was typed or stored. `from` names the place in a refusal; the key itself is never in one. */
export function readKey(text: string, from: string): Secret {
  const key = text.trim()
  if (!KEY.test(key))
    throw new LoginNeeded(`${from}: holds no API key; a key looks like svc_live_ and 24 letters and digits`)
  return new Secret(key)
}

function readUrl(text: string, from: string): string {
  if (!/^https?:\/\/[^\s/?#@]+(\/v1)?\/?$/i.test(text)) {
    throw new UsageMistake(
      `${from}: must be a server's address, such as https://api.example.com or http://127.0.0.1:8080`,
    )
  }
  return text.replace(/(\/v1)?\/?$/i, '')
}

async function readLogins(system: System): Promise<Logins> {
  const text = await system.logins.read()
  if (text === null) return { server: null, keys: {} }
  try {
    return loginsOf(JSON.parse(text))
  } catch {
    throw new CliFailure(`${system.logins.path} can't be understood: remove it and log in again`)
  }
}

function loginsOf(parsed: unknown): Logins {
  if (!isObject(parsed) || !isObject(parsed['keys'])) throw new Error('not a file of logins')
  const keys: Record<string, KeptKey> = {}
  for (const [url, kept] of Object.entries(parsed['keys'])) {
    if (!isObject(kept)) throw new Error('not a login')
    const own = kept['own'] === true ? ({ own: true } as const) : {}
    if (kept['in'] === 'keychain') keys[url] = { in: 'keychain', ...own }
    else if (typeof kept['key'] === 'string') keys[url] = { in: 'file', key: kept['key'], ...own }
    else throw new Error('not a login')
  }
  const { server } = parsed
  // After a logout of the preset server the last one of the others takes its place: keys are in the order of their logins.
  const preset = typeof server === 'string' ? readUrl(server, 'server') : (Object.keys(keys).at(-1) ?? null)
  return { server: preset, keys }
}

async function writeLogins(system: System, logins: Logins): Promise<void> {
  await system.logins.write(`${JSON.stringify(logins, null, 2)}\n`)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
