import { facts, shortInstant } from '../../../server/src/lib/table.ts'
import { askedServer } from '../api.ts'
import type { CliCommand } from '../command.ts'
import { LoginNeeded } from '../failure.ts'
import { findKey, KEY_VARIABLE, type KeySource, loginHint } from '../logins.ts'
import type { System } from '../system.ts'
import { type OwnKey, readOwnKey } from './ownKey.ts'

/** As much of a key as lists of keys show: enough to tell one from another, and no more. */
const SHOWN_CHARACTERS = 13

/** `tollgate whoami` */
export const whoAmICommand: CliCommand = {
  words: ['whoami'],
  summary: 'Show the server, who you are there, and the rights and the expiry of your API key',
  options: [],
  examples: ['tollgate whoami'],
  run: async (args, system) => {
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
