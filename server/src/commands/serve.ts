import type { CommandContext, ServeOptions } from './context.ts'
import { serveMany } from './serveMany.ts'
import { serveOne } from './serveOne.ts'
import type { Signals } from './signals.ts'
import { startUp } from './startUp.ts'

/**
 * Runs `tollgate serve`: starts in order, prints what is served, runs until a signal, stops cleanly; gives the exit
 * code.
 */
export function serve(
  options: ServeOptions,
  machine: Pick<CommandContext, 'clock' | 'randomBytes' | 'stdout' | 'stdoutIsTerminal' | 'stderr'>,
  signals: Signals,
): Promise<number> {
  return startUp(options, machine, signals, options.config.processes > 1 ? serveMany : serveOne)
}
