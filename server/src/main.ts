/** The entry: hands the command line to its command, and signals to a running server. */

import { join } from 'node:path'
import { CommandFailure } from './commands/command.ts'
import { run } from './commands/run.ts'
import { serve } from './commands/serve.ts'
import type { Signals } from './commands/signals.ts'
import { systemSurroundings } from './commands/system.ts'
import { systemClock } from './io/clock.ts'
import { PullFailure } from './upstream/gguf/hub.ts'
import { pullModel } from './upstream/gguf/pull.ts'

/** What a shell gives for a program whose reader has left. */
const ENDED_BY_SIGPIPE = 141

const signals: Signals = {
  onStop: (callback) => {
    process.on('SIGTERM', callback)
    process.on('SIGINT', callback)
  },
  onReload: (callback) => void process.on('SIGHUP', callback),
  onOrphaned: (callback) => void process.stdin.on('end', callback).on('error', callback).resume(),
}

let isServing = false

const surroundings = systemSurroundings({
  serve: (options) => {
    isServing = true
    return serve(options, surroundings, signals)
  },
  pullModel: ({ dataDirectory, source, onProgress }) =>
    pullModel({ spec: source, folder: join(dataDirectory, 'models'), clock: systemClock, onProgress }).catch(
      (error) => {
        throw error instanceof PullFailure ? new CommandFailure(error.message) : error
      },
    ),
})

// Whoever read what is printed has left, as `head` does. A server goes on without.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', () => {
    if (!isServing) process.exit(ENDED_BY_SIGPIPE)
  })
}

// Not process.exit straight away: what was written last must reach a pipe.
process.exitCode = await run(process.argv.slice(2), surroundings)
process.stdout.write('', () => process.exit())
