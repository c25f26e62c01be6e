/** The command `tollgate` as it is typed in a terminal: its words in, its output and exit code out. */

import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'

/** The command that people type as `./tollgate`. */
export const COMMAND = join(import.meta.dirname, '../../../tollgate')

export interface TerminalOptions {
  readonly environment?: Readonly<Record<string, string>>
  /** Where it is typed; the data directory is `.tollgate` there unless a flag says otherwise. */
  readonly folder: string
}

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A command that goes on. */
export interface Typed {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves to all of stdout once `text` stands there; rejects when the command ends before. */
  shows(text: string): Promise<string>
  /** The same of stderr. */
  says(text: string): Promise<string>
}

/** Types a command. Discovery is off, and no database but the embedded one, unless the environment says so. */
export function typeCommand(words: readonly string[], { environment = {}, folder }: TerminalOptions): Typed {
  return run(COMMAND, words, folder, { TOLLGATE_DISCOVERY: 'off', DATABASE_URL: '', ...environment })
}

/** Pastes a text into a shell and waits for its end. */
export function paste(text: string, folder: string): Promise<Ended> {
  return run('sh', ['-c', text], folder, {}).ended
}

/** Runs any program, with these variables over those of the tests, and `input` piped into it. */
export function run(
  program: string,
  words: readonly string[],
  folder: string,
  more: Record<string, string>,
  input?: string,
): Typed {
  const child = spawn(program, words, {
    cwd: folder,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...more },
  })
  child.stdin?.on('error', () => {}).end(input)
  let stdout = ''
  let stderr = ''
  const waiting = new Set<() => void>()
  child.stdout?.on('data', (data) => {
    stdout += data
    for (const look of waiting) look()
  })
  child.stderr?.on('data', (data) => {
    stderr += data
    for (const look of waiting) look()
  })
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
  const until = (read: () => string, text: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        if (!read().includes(text)) return
        waiting.delete(look)
        resolve(read())
      }
      waiting.add(look)
      look()
      void ended.then(({ code }) => reject(new Error(`it ended with ${code} and never said "${text}": ${stderr}`)))
    })
  return {
    process: child,
    ended,
    shows: (text) => until(() => stdout, text),
    says: (text) => until(() => stderr, text),
  }
}
