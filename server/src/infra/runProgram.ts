/** Runs a program with a text on its standard input, within bounds. */

import { type ChildProcess, spawn } from 'node:child_process'
import type { Timers } from '../lib/time.ts'

/** How long after a program's end its output is read on, where something else has it open. */
const LAST_WORDS_MS = 500

export interface ProgramRun {
  readonly path: string
  readonly args: readonly string[]
  readonly input: string
  /** Its variables beside PATH. */
  readonly environment?: Readonly<Record<string, string>>
  /** The program, and what it has started in its group, are killed when this aborts. */
  readonly signal: AbortSignal
  /** More than this on its standard output is a failure. */
  readonly outputBytesMost: number
  readonly clock: Timers
}

/** How a program has ended. */
export interface ProgramEnd {
  /** Null: a signal ended it. */
  readonly exitCode: number | null
  readonly output: string
}

/**
 * Runs a program without our environment and resolves when it has ended. Rejects where it can't be started, says too
 * much, or is killed since `signal` aborted. Its standard error is dropped: it may quote secrets.
 */
export function runProgram({
  path,
  args,
  input,
  environment,
  signal,
  outputBytesMost,
  clock,
}: ProgramRun): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...environment }
    // A group of its own, so that its children are killed with it.
    const child = spawn(path, [...args], { stdio: ['pipe', 'pipe', 'ignore'], env, detached: true })
    const chunks: Buffer[] = []
    let bytes = 0
    let failure: Error | null = null
    const give = (error: Error) => {
      failure ??= error
      killGroup(child)
      child.stdout.destroy()
    }
    const onAbort = () => give(new Error('the program took too long'))
    signal.addEventListener('abort', onAbort, { once: true })
    child.on('error', (error) => {
      signal.removeEventListener('abort', onAbort)
      reject(error)
    })
    // It may end without having read its input.
    child.stdin.on('error', () => {})
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.byteLength
      if (bytes > outputBytesMost) give(new Error('the program said too much'))
      else chunks.push(chunk)
    })
    // Something that it has started may keep its output open: what it said itself has come within a moment.
    child.on('exit', () => clock.after(LAST_WORDS_MS, () => child.stdout.destroy()))
    child.on('close', (exitCode) => {
      signal.removeEventListener('abort', onAbort)
      if (failure === null) resolve({ exitCode, output: Buffer.concat(chunks).toString('utf8') })
      else reject(failure)
    })
    child.stdin.end(input)
  })
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
