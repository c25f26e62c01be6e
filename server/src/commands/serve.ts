import type { CommandContext, ServeOptions } from './context.ts'
import { serveMany } from './serveMany.ts'
import { serveOne } from './serveOne.ts'
import type { Signals } from './signals.ts'
import { startUp } from './startUp.ts'

/** What `tollgate serve` does: start in order, say what is served, run until a signal, stop cleanly; gives the exit code. */
export function serve(
  options: ServeOptions,
  machine: Pick<CommandContext, 'clock' | 'randomBytes' | 'stdout' | 'stdoutIsTerminal' | 'stderr'>,
  signals: Signals,
): Promise<number> {
  return startUp(options, machine, signals, options.config.processes > 1 ? serveMany : serveOne)
}
