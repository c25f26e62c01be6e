import { askedServer } from '../api.ts'
import type { CliCommand } from '../command.ts'
import { CliFailure, LoginNeeded } from '../failure.ts'
import { findKept, forgetKey, KEY_VARIABLE, type KeyWithSource, listLogins, serverUrlOf } from '../logins.ts'
import type { System } from '../system.ts'
import { revokeOwnKey } from './ownKey.ts'

/** `tollgate logout` */
export const logoutCommand: CliCommand = {
  words: ['logout'],
  summary: 'Forget the API key for a server on this machine, and revoke it if a login by browser made it',
  options: [{ name: 'keep-key', value: null, summary: 'do not revoke the key; it works until it expires' }],
  examples: ['tollgate logout', 'tollgate logout --server https://api.example.com'],
  run: async (args, system) => {
    const url = await askedServer(args, system)
    const shadow = (system.environment[KEY_VARIABLE] ?? '') === '' ? '' : `${KEY_VARIABLE} is still set.\n`
    const revoked = !args.flag('keep-key') && (await revokeKept(system, url))
    if (!(await forgetKey(system, url)))
      throw new CliFailure(`nobody is logged in to ${url} here${shadow === '' ? '' : `; ${KEY_VARIABLE} is set`}`)
    const key = revoked ? 'The key is revoked.' : 'The key itself stays valid until it is revoked or expires.'
    const next = await serverUrlOf(system, undefined)
    const others = await listLogins(system)
    const isLogin = others.some(({ server }) => server === next)
    const use = `Without --server, commands use ${next} from now on${isLogin ? ', where you are still logged in' : ''}.\n`
    const elsewhere = next === url ? '' : use
    return {
      json: { server: url, forgotten: true, revoked, next_server: next },
      text: `Logged out of ${url}. ${key}\n${elsewhere}${shadow}`,
    }
  },
}

/** Revokes the key of the login, if a login by browser made it; returns whether it is revoked. */
async function revokeKept(system: System, url: string): Promise<boolean> {
  const kept = await readKept(system, url)
  if (kept === null || !kept.isOwn) return false
  try {
    await revokeOwnKey(system, url, kept.key)
  } catch (error) {
    // The server knows the key no more: it was revoked, or has expired.
    if (error instanceof LoginNeeded) return true
    if (!(error instanceof CliFailure)) throw error
    const advice = 'you are still logged in; try again, or give --keep-key and revoke it later'
    throw new CliFailure(`the key could not be revoked: ${error.message}; ${advice}`, { code: error.code })
  }
  return true
}

async function readKept(system: System, url: string): Promise<KeyWithSource | null> {
  try {
    return await findKept(system, url)
  } catch (error) {
    // The keychain has lost the key: there is nothing to revoke, and the login is still to be forgotten.
    if (error instanceof LoginNeeded) return null
    throw error
  }
}
