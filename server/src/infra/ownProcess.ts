import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

/** A signal that is ignored stays so over `exec`, until the program listens for it. */
const IGNORING_SIGHUP = `trap '' HUP; exec "$@"`

/**
 * Variables for a process of ours that does not inherit this one's environment: the runtime reports crashes to its makers over the network,
 * unless it is told not to. The script `tollgate` tells the server.
 */
export const UNREPORTED_CRASHES = { BUN_ENABLE_CRASH_REPORTING: '0', DO_NOT_TRACK: '1' } as const

const ENTRY = join(import.meta.dirname, '../main.ts')

/**
 * Starts this program again. In a group of its own, so that a terminal's Ctrl-C reaches it through its parent only; its
 * stdin ends when the parent does. SIGHUP, which the parent passes on, does not end it before it listens.
 */
export function startOwnProcess(
  words: readonly string[],
  environment: Record<string, string | undefined>,
): ChildProcess {
  return spawn('/bin/sh', ['-c', IGNORING_SIGHUP, 'sh', process.execPath, ENTRY, ...words], {
    env: environment,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}

/** Returns whether this process may do everything on its machine. */
export function runsAsRoot(): boolean {
  return process.getuid?.() === 0
}
