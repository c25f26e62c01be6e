/** The entry: hands the command line to its command, and signals to a running server. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CommandFailure } from './commands/command.ts'
import { run } from './commands/run.ts'
import { holdReloads, type Signals } from './commands/signals.ts'
import { noDataDirectory, systemContext } from './commands/system.ts'
import { ownEnvironment } from './config/config.ts'
import { systemClock } from './infra/clock.ts'
import { InstallFailure } from './infra/npmPackages.ts'
import { installClusterClient, isClusterClientInstalled } from './instances/drivers/kubernetes/install.ts'
import { PullFailure } from './providers/gguf/hub.ts'
import { installEngine, isEngineInstalled } from './providers/gguf/install.ts'
import { pullModel } from './providers/gguf/pull.ts'

/** The exit code that a shell gives for a program whose reader has left. */
const ENDED_BY_SIGPIPE = 141
const FAILED = 1

const signals: Signals = {
  onStop: (callback) => {
    process.on('SIGTERM', callback)
    process.on('SIGINT', callback)
  },
  onReload: (callback) => void process.on('SIGHUP', callback),
  onOrphaned: (callback) => void process.stdin.on('end', callback).on('error', callback).resume(),
}

let isServing = false

const context = systemContext({
  onOutputLost: (error) => {
    // A server goes on without.
    if (isServing) return
    // The reader has left, as `head` does.
    if ('code' in error && error.code === 'EPIPE') process.exit(ENDED_BY_SIGPIPE)
    process.stderr.write(`tollgate: standard output can't be written (${error.message})\n`)
    process.exit(FAILED)
  },
  serve: async (options) => {
    isServing = true
    const held = holdReloads(signals)
    // Loaded here: the gateway is most of the program, and no other command needs it.
    const { serve } = await import('./commands/serve.ts')
    return await serve(options, context, held)
  },
  pullModel: async ({ dataDirectory, source, onInstalling, onProgress }) => {
    // Checked first, because installing the engine takes minutes.
    if (source !== null && !existsSync(dataDirectory)) throw noDataDirectory(dataDirectory)
    try {
      if (!(await isEngineInstalled())) {
        onInstalling()
        await installEngine({ environment: ownEnvironment() })
      }
      if (source === null) return null
      return await pullModel({ spec: source, folder: join(dataDirectory, 'models'), clock: systemClock, onProgress })
    } catch (error) {
      const isMendable = error instanceof PullFailure || error instanceof InstallFailure
      throw isMendable ? new CommandFailure(error.message) : error
    }
  },
  installClusterClient: async ({ onInstalling }) => {
    if (await isClusterClientInstalled()) return false
    onInstalling()
    return await installClusterClient({ environment: ownEnvironment() }).catch((error: unknown) => {
      throw error instanceof InstallFailure ? new CommandFailure(error.message) : error
    })
  },
})

// Told to who wrote; without a listener the process would end.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {
  if (!isServing) process.exit(ENDED_BY_SIGPIPE)
})

// Not process.exit straight away: what was written last must reach a pipe.
process.exitCode = await run(process.argv.slice(2), context)
process.stdout.write('', () => process.exit())
