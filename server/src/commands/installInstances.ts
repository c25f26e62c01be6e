import type { Command } from './command.ts'

/** `tollgate instances install` */
export const installInstancesCommand: Command = {
  words: ['instances', 'install'],
  summary: 'Install the client of Kubernetes, for instances on a cluster',
  options: [],
  examples: ['tollgate instances install'],
  run: async (_invocation, context) => {
    const isNew = await context.installClusterClient({
      onInstalling: () => context.stderr('Installing the client of Kubernetes (70 MB, once) ...\n'),
    })
    return {
      json: { installed: true },
      text: isNew ? 'The client of Kubernetes is installed.\n' : 'The client of Kubernetes is installed already.\n',
    }
  },
}
