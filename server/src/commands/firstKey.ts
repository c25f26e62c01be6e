import { join } from 'node:path'
import { makeFirstKey } from '../app/firstStart.ts'
import { makeSetUpLink } from '../identity/accounts/entry/setUp.ts'
import { removeSetUpFile, writeSetUpFile } from '../identity/accounts/entry/setUpFile.ts'
import { writeSecretFile } from '../infra/folder.ts'
import type { ServeContext } from './startUp.ts'

/** The key of the first start: itself, where a person reads it off a terminal, or the file that it is in. */
export type FirstKey = { readonly key: string } | { readonly file: string }

const FILE_NAME = 'first-key'

/** The link with which the first person sets an account up: itself, or the file that it is in. */
export type SetUpLink = { readonly url: string } | { readonly file: string }

/**
 * Makes the link to set up the first account, at each start until somebody has one; null once somebody has, where the settings
 * have no accounts, and in all processes of a group but the first. It is shown as the first key is. `baseUrl` is where people
 * reach this server.
 */
export async function openSetUpLink(started: ServeContext, baseUrl: string): Promise<SetUpLink | null> {
  const { config, opened, clock, randomBytes } = started
  if (config.settings.fixed.accounts === null || config.member?.isFirst === false) return null
  const secret = await makeSetUpLink({ database: opened.database, clock, random: randomBytes })
  if (secret === null) {
    await removeSetUpFile(folderOf(started))
    return null
  }
  const url = `${baseUrl}/account/set-up?token=${secret.reveal()}`
  if (isShownTo(started)) return { url }
  return { file: await writeSetUpFile(folderOf(started), url) }
}

/** Returns whether a person reads what is printed. */
function isShownTo({ config: { member }, stdoutIsTerminal }: ServeContext): boolean {
  return member === null ? stdoutIsTerminal : member.stdoutIsTerminal
}

function folderOf({ config }: ServeContext): string {
  return config.member?.sharedDirectory ?? config.dataDirectory
}

/**
 * Makes the first organization and key on the first start; null on every later one, and in all processes of a group but the
 * first. Standard output that is no terminal is mostly a log, which others read: the key then goes to a file of mode 0600 in
 * the data directory. Throws, and makes no key, when the file can't be written.
 */
export async function openFirstKey(started: ServeContext): Promise<FirstKey | null> {
  const { config, opened, clock, randomBytes } = started
  if (config.member?.isFirst === false) return null
  const isShown = isShownTo(started)
  const file = join(folderOf(started), FILE_NAME)
  const keep = async (plaintext: string) => {
    if (!isShown) await writeSecretFile(file, `${plaintext}\n`)
  }
  const key = await makeFirstKey(opened.database, clock, randomBytes, keep)
  if (key === null) return null
  return isShown ? { key } : { file }
}
