import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import { configOf } from './environment.ts'

/** `tollgate config check` */
export const checkConfigCommand: Command = {
  words: ['config', 'check'],
  summary: 'Check the settings file, the flags and the environment',
  options: [DATA_DIR_OPTION, CONFIG_OPTION],
  examples: ['tollgate config check --config /etc/tollgate.yaml'],
  run: async (invocation, surroundings) => {
    const { source, settings, dataDirectory, databaseUrl } = await configOf(invocation, surroundings)
    const file = source?.fileName ?? null
    const models = settings.models?.length ?? null
    const served = models === null ? 'the built-in models are served' : `${models} models`
    return {
      json: {
        ok: true,
        file,
        models,
        upstreams: settings.upstreams.length,
        data_dir: dataDirectory,
        database: databaseUrl === null ? 'embedded' : 'external',
      },
      text:
        file === null
          ? 'There is no settings file: the built-in models, and what is found on this machine, are served.\n'
          : `${file} is good: ${served}, ${settings.upstreams.length} upstreams.\n`,
    }
  },
}
