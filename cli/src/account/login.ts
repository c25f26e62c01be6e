import { isLoopback } from '../../../server/src/lib/loopback.ts'
import type { Secret } from '../../../server/src/lib/secret.ts'
import { askedServer, askWithKey, ServerRefusal } from '../api.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { CliFailure, Interruption, LoginNeeded, UsageMistake } from '../failure.ts'
import { findKept, hasOwnKey, KEY_VARIABLE, keepKey, readKey } from '../logins.ts'
import { sayNotice } from '../notice.ts'
import { INTERRUPTED_LINE, type System } from '../system.ts'
import { logInByDevice } from './deviceLogin.ts'
import { revokeOwnKey } from './ownKey.ts'

/** A key is 33 characters. */
const TOKEN_BYTES_MAX = 1_024

/** `tollgate login`, or `tollgate login --with-token < key.txt` */
export const loginCommand: CliCommand = {
  words: ['login'],
  summary:
    'Log in by a browser, and keep the API key in the keychain of this machine or in a file that only you can read',
  options: [
    {
      name: 'with-token',
      value: null,
      summary: 'read the API key from standard input, in place of a login by browser',
    },
  ],
  examples: [
    'tollgate login --server https://api.example.com',
    'tollgate login --with-token --server https://api.example.com < key.txt',
  ],
  run: async (args, system) => {
    const url = await askedServer(args, system)
    const withToken = args.flag('with-token')
    if (!withToken && !args.mayAsk) throw new UsageMistake('a login by browser needs a person: give --with-token')
    const former = await findFormer(system, url)
    warnOfPlainHttp(system, url)
    // Before a person goes to the browser for a key that can't be kept.
    if (!withToken) await system.logins.check()
    const key = withToken ? await readToken(args, system, url) : await logInByDevice(system, url)
    const place = await keep(system, url, key, !withToken)
    if (former !== null) await revokeFormer(system, url, former, key)
    const words = place === 'keychain' ? 'the keychain of this machine' : system.logins.path
    const shadow =
      (system.environment[KEY_VARIABLE] ?? '') === '' ? '' : `${KEY_VARIABLE} is set, and goes before it.\n`
    return {
      json: { server: url, stored_in: place, file: place === 'file' ? system.logins.path : null },
      text: `Logged in to ${url}. The key is in ${words}.\n${shadow}`,
    }
  },
}

/** The key of the login before; or the reason why it can't be had. */
type Former = { readonly key: Secret } | { readonly problem: string }

/** Returns the key of the login before, where a login by browser made it; else null. */
async function findFormer(system: System, url: string): Promise<Former | null> {
  if (!(await hasOwnKey(system, url).catch(() => false))) return null
  return await findKept(system, url).catch((error: unknown) => ({ problem: messageOf(error) }))
}

/** Revokes the key of the login before: nobody has it any more. Says so where that can't be done. */
async function revokeFormer(system: System, url: string, former: Former, key: Secret): Promise<void> {
  if (!('key' in former)) {
    sayStillValid(system, url, former.problem)
    return
  }
  if (former.key.reveal() === key.reveal()) return
  await revokeOwnKey(system, url, former.key).catch((error: unknown) => {
    // The server knows the key no more: it was revoked, or has expired.
    if (!(error instanceof LoginNeeded)) sayStillValid(system, url, messageOf(error))
  })
}

function sayStillValid(system: System, url: string, problem: string): void {
  const advice =
    'it has the name of this machine in "tollgate keys list", and "tollgate keys revoke ID" ends it; both need an admin\'s key'
  const message = `tollgate: the key of your login before is not revoked, and works until it expires (${problem}): ${advice}`
  sayNotice(system, { code: 'former_key_not_revoked', message, fields: { server: url } })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Keeps a key that the server knows. One that was made for this machine, and can't be kept, is revoked again. */
async function keep(system: System, url: string, key: Secret, isOwn: boolean): Promise<'keychain' | 'file'> {
  try {
    await checkKey(system, url, key)
    return await keepKey(system, url, key, isOwn)
  } catch (error) {
    if (isOwn) await revokeOwnKey(system, url, key).catch(() => {})
    throw error
  }
}

async function readToken(args: CommandLine, { stdin }: System, url: string): Promise<Secret> {
  if (!stdin.isTerminal) return readKey(await stdin.readAll(TOKEN_BYTES_MAX), 'standard input')
  if (!args.mayAsk || args.json) throw new UsageMistake('--with-token: pipe the key into standard input')
  const typed = await stdin.readSecret(`API key for ${url} (not shown): `)
  if (typed === INTERRUPTED_LINE) throw new Interruption('nothing was kept')
  return readKey(typed ?? '', 'the answer')
}

/** Throws `LoginNeeded` when the server does not know the key. A key that may not list models is a key all the same. */
async function checkKey(system: System, url: string, key: Secret): Promise<void> {
  try {
    await askWithKey(system, url, key, { method: 'GET', path: '/v1/models' })
  } catch (error) {
    if (error instanceof ServerRefusal && error.status === 403) return
    if (error instanceof ServerRefusal)
      throw new CliFailure(`the key was not kept: ${error.message}`, { code: error.code })
    throw error
  }
}

function warnOfPlainHttp(system: System, url: string): void {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || isLoopback(hostname)) return
  const message = `tollgate: ${url} is not encrypted: others on the way can read the key; use https where you can`
  sayNotice(system, { code: 'not_encrypted', message, fields: { server: url } })
}
