import { facts, shortInstant, table } from '../../../server/src/lib/table.ts'
import { askedServer } from '../api.ts'
import type { CliCommand, CliResult, CommandLine } from '../command.ts'
import { LoginNeeded } from '../failure.ts'
import { findKey, KEY_VARIABLE, type KeySource, listLogins, loginHint } from '../logins.ts'
import type { System } from '../system.ts'
import { type OwnKey, readOwnKey } from './ownKey.ts'

/** As much of a key as lists of keys show: enough to tell one from another, and no more. */
const SHOWN_CHARACTERS = 13

/** `tollgate whoami` */
export const whoAmICommand: CliCommand = {
  words: ['whoami'],
  summary: 'Show the server, who you are there, and the rights and the expiry of your API key',
  options: [{ name: 'all', value: null, summary: 'list the logins of this machine instead; asks no server' }],
  examples: ['tollgate whoami', 'tollgate whoami --all'],
  run: async (args, system) => {
    if (args.flag('all')) return await showLogins(args, system)
    const url = await askedServer(args, system)
    const found = await findKey(system, url)
    if (found === null) {
      throw new LoginNeeded(`nobody is logged in to ${url} here: log in with "${await loginHint(system, url)}"`)
    }
    const own = await readOwnKey(system, url, found.key)
    const shown = `${found.key.reveal().slice(0, SHOWN_CHARACTERS)}…`
    return {
      json: { server: url, key: shown, key_from: found.source, ...own },
      text: facts([
        ['Server', url],
        ['Person', personOf(own)],
        ['Organization', `${own.organization.name}, ${own.organization.id}`],
        ['Key', `${shown}, from ${placeOf(found.source, system)}`],
        ['Key name', own.name ?? '-'],
        ['Key id', own.id],
        ['Scopes', scopesOf(own)],
        ["Admin's rights", own.admin ? 'yes' : 'no'],
        ['Expires', own.expires_at === null ? 'never' : `${shortInstant(own.expires_at)} UTC`],
      ]),
    }
  },
}

async function showLogins(args: CommandLine, system: System): Promise<CliResult> {
  const preset = await askedServer(args, system)
  const data = (await listLogins(system)).map((login) => ({ ...login, preset: login.server === preset }))
  const rows = data.map((login) => [login.server, placeOf(login.stored_in, system), login.preset ? 'yes' : ''])
  const none = 'There are no logins on this machine: log in with "tollgate login".'
  return { json: { data }, text: table(['SERVER', 'KEY IS IN', 'USED NOW'], rows, none, system.stdoutColumns) }
}

function personOf({ person }: OwnKey): string {
  if (person === null) return 'nobody: the key belongs to the organization'
  return `${person.name}, ${person.email}, ${person.role} of the organization`
}

/** Such as `serverless write, billing read`. */
function scopesOf({ levels }: OwnKey): string {
  const given = Object.entries(levels).filter(([, level]) => level !== 'none')
  return given.map(([resource, level]) => `${resource} ${level}`).join(', ') || 'none'
}

function placeOf(source: KeySource, { logins }: System): string {
  if (source === 'environment') return KEY_VARIABLE
  return source === 'keychain' ? 'the keychain of this machine' : logins.path
}
