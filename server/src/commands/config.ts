import type { Config } from '../config/config.ts'
import { isLoopback } from '../lib/loopback.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import { configOf } from './environment.ts'

/** `tollgate config check` */
export const checkConfigCommand: Command = {
  words: ['config', 'check'],
  summary: 'Check the settings file, the flags and the environment',
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate config check --config /etc/tollgate.yaml'],
  run: async (invocation, context) => {
    const config = await configOf(invocation, context)
    const { source, settings, settingsPath, dataDirectory, databaseUrl } = config
    const warnings = warningsOf(config)
    const file = source?.fileName ?? null
    const models = settings.models?.length ?? null
    const served = models === null ? 'the built-in ones' : `${models}`
    return {
      json: {
        ok: true,
        file,
        models,
        providers: settings.providers.length,
        data_dir: dataDirectory,
        database: databaseUrl === null ? 'embedded' : 'external',
        warnings,
      },
      text:
        file === null
          ? `There is no settings file ${settingsPath}: without one Tollgate serves the built-in models and those that it finds on this machine. To check another file, name it with --config.\n`
          : `${file} is good. Models: ${served}; providers: ${settings.providers.length}.\n${warnings.map((each) => `Warning: ${each}\n`).join('')}`,
    }
  },
}

/** Settings that are no mistakes and yet do nothing. */
function warningsOf({ host, settings: { fixed } }: Config): string[] {
  const name = fixed.publicUrl === null ? host : new URL(fixed.publicUrl).hostname
  const isWithoutLinks = fixed.smtp === null && !isLoopback(name)
  return isWithoutLinks && fixed.accounts?.takesStrangers === true ? [NO_REGISTRATION] : []
}

const NO_REGISTRATION =
  'accounts.registration does nothing: people register by a link in a mail, and without the section "smtp" no mail is sent'
