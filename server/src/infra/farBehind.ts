/** Long work in a process of its own, for which no call waits. */

import type { Timers } from '../lib/time.ts'
import { UNREPORTED_CRASHES } from './ownProcess.ts'
import { findProgram } from './program.ts'
import { runProgram } from './runProgram.ts'

/**
 * How far such a process stands behind the event loop, as nice(2) counts: where calls want all processors, it gets a thirtieth of one. A
 * thread can be put there alone, but what compiles its code and collects its garbage is shared by all threads of a process.
 */
const NICER_BY = 15

/** A module that runs once is not worth the last compiler of the runtime. */
const ENVIRONMENT = { ...UNREPORTED_CRASHES, BUN_JSC_useFTLJIT: '0' }

interface FarBehindOptions {
  readonly clock: Timers
  /** The process is killed after so long. */
  readonly runMostMs: number
  /** More output than this is a failure. */
  readonly outputBytesMost: number
}

/**
 * Runs a module of ours in a process of its own, with `input` on its standard input, and returns its standard output. Rejects where it
 * can't be started, fails, takes too long or says too much.
 */
export async function runFarBehind(file: string, input: string, options: FarBehindOptions): Promise<string> {
  const { clock, runMostMs, outputBytesMost } = options
  const nice = findProgram('nice')
  const words = [...(nice === null ? [] : [nice, '-n', String(NICER_BY)]), process.execPath, '--no-env-file', file]
  const [path = '', ...args] = words
  const ending = new AbortController()
  const cancelTimer = clock.after(runMostMs, () => ending.abort())
  try {
    const { signal } = ending
    const ended = await runProgram({ path, args, input, environment: ENVIRONMENT, signal, outputBytesMost, clock })
    if (ended.exitCode === 0) return ended.output
    throw new Error(
      ended.exitCode === null ? 'a signal ended the process' : `the process ended with code ${ended.exitCode}`,
    )
  } finally {
    cancelTimer()
  }
}
