import { makeResetLink, makeSetUpLink } from '../identity/accounts/entry/setUp.ts'
import { addressOf } from './banner.ts'
import type { Invocation } from './command.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION } from './command.ts'
import type { CommandContext } from './context.ts'
import { configOf, orThrow, withDatabase } from './environment.ts'

/** Where people reach the server that this command line names. */
async function baseUrlOf(invocation: Invocation, context: CommandContext): Promise<string> {
  const { host, port, settings, source, settingsPath } = await configOf(invocation, context)
  if (settings.fixed.accounts === null) {
    throw new CommandFailure(
      source === null
        ? `accounts are off: no settings file was found, there is no ${settingsPath}; run this in the server's folder, or name its settings file with --config`
        : `accounts are off: ${settingsPath} has no section "accounts"; add it, or name the server's settings file with --config`,
    )
  }
  return settings.fixed.publicUrl ?? addressOf(host, port)
}

/** `tollgate users set-up-link` */
export const setUpLinkCommand: Command = {
  words: ['users', 'set-up-link'],
  summary: 'Make the link with which the first person sets an account up',
  options: [CONFIG_OPTION, DATA_DIR_OPTION],
  examples: ['tollgate users set-up-link'],
  run: async (invocation, context) => {
    const base = await baseUrlOf(invocation, context)
    return withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes: random } = context
      const secret = await makeSetUpLink({ database, clock, random })
      if (secret === null)
        throw new CommandFailure(
          'somebody has an account already: "tollgate users reset-link EMAIL" lets them in again, and "tollgate operators add EMAIL" makes them an operator',
        )
      const url = `${base}/account/set-up?token=${secret.reveal()}`
      return { json: { url }, text: `The link works once, within a day:\n\n${url}\n` }
    })
  },
}

/** `tollgate users reset-link EMAIL` */
export const resetLinkCommand: Command = {
  words: ['users', 'reset-link'],
  summary: 'Make a link with which a person sets a new password',
  argument: { name: 'EMAIL', summary: "the person's mail address" },
  options: [CONFIG_OPTION, DATA_DIR_OPTION],
  examples: ['tollgate users reset-link ada@example.com'],
  run: async (invocation, context) => {
    const base = await baseUrlOf(invocation, context)
    return withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes: random } = context
      const secret = orThrow(await makeResetLink({ database, clock, random }, invocation.argument))
      const url = `${base}/account/reset?token=${secret.reveal()}`
      return {
        json: { url },
        text: `The link works once, within 30 minutes, and ends all sessions of the person:\n\n${url}\n`,
      }
    })
  },
}
