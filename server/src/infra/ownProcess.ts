import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

const ENTRY = join(import.meta.dirname, '../main.ts')

/**
 * Starts this program again. In a group of its own, so that a terminal's Ctrl-C reaches it through its parent only; its
 * stdin ends when the parent does.
 */
export function startOwnProcess(
  words: readonly string[],
  environment: Record<string, string | undefined>,
): ChildProcess {
  return spawn(process.execPath, [ENTRY, ...words], {
    env: environment,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}

/** Returns whether this process may do everything on its machine. */
export function runsAsRoot(): boolean {
  return process.getuid?.() === 0
}
