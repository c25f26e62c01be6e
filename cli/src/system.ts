import type { Clock } from '../../server/src/lib/time.ts'

/** All that commands touch of the operating system, so that a test can put its own in place. */
export interface System {
  readonly clock: Clock
  readonly randomBytes: (length: number) => Uint8Array
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdin: Input
  /** Writes a part of what a command prints as it goes on. */
  readonly stdout: (text: string) => void
  /** Writes a result; rejects with the system's error when it can't be written whole. */
  readonly print: (content: string | Uint8Array) => Promise<void>
  readonly stdoutIsTerminal: boolean
  /** How wide a line of stdout is before it is broken; infinite where it is no terminal. */
  readonly stdoutColumns: number
  readonly stderr: (text: string) => void
  /** As `stdoutColumns`, of stderr. */
  readonly stderrColumns: number
  /** True with `--json`: each line of stderr is an object. */
  readonly isJson?: boolean
  /** True when stderr is a terminal: a progress bar is drawn only there. */
  readonly stderrIsTerminal: boolean
  /** Follows no redirect, and has no time limit of its own. Rejects with the system's error when no answer begins. */
  readonly fetch: (url: string, request: SentRequest) => Promise<Response>
  /** Writes a file whole or not at all; the bytes written. */
  readonly saveFile: (path: string, content: AsyncIterable<Uint8Array>) => Promise<number>
  /** Rejects where `saveFile` would for any of the files, with so many bytes in each, as far as can be told beforehand. */
  readonly checkFiles: (paths: readonly string[], bytesEach: number) => Promise<void>
  /** Ctrl-C calls back in place of ending the process, once; the result gives that up. */
  readonly onInterrupt: (callback: () => void) => () => void
  /** Where the command keeps its login. */
  readonly logins: LoginFile
  /** The system's keychain; null where there is none that works. */
  readonly openKeychain: () => Promise<Keychain | null>
  /** The name of this machine, for the name of a key. */
  readonly hostname: string
}

/** A request as it leaves. */
export interface SentRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Ends the request, and the answer too. */
  readonly signal: AbortSignal
}

export interface Input {
  /** True when a person types there. */
  readonly isTerminal: boolean
  /** All of it, as UTF-8; throws when it is more than `bytesMax`. */
  readonly readAll: (bytesMax: number) => Promise<string>
  /** One line that a person types; null at the end of the input (Ctrl-D), 'interrupted' at Ctrl-C. */
  readonly readLine: (prompt: string, history: readonly string[]) => Promise<string | null | typeof INTERRUPTED_LINE>
  /** The same, not shown as it is typed. */
  readonly readSecret: (prompt: string) => Promise<string | null | typeof INTERRUPTED_LINE>
}

export const INTERRUPTED_LINE = Symbol('interrupted')

/** The text of the file with the login; null when there is none. */
export interface LoginFile {
  /** Absolute, to be shown. */
  readonly path: string
  /** Rejects with a `CliFailure` when other users of the machine may read the file. */
  readonly read: () => Promise<string | null>
  /** Replaces the file, mode 0600, in a folder of mode 0700. */
  readonly write: (text: string) => Promise<void>
  /** Rejects where `write` would, as far as can be told beforehand. */
  readonly check: () => Promise<void>
}

/** Secrets by account. Each call rejects with the keychain's own error. */
export interface Keychain {
  readonly get: (account: string) => Promise<string | null>
  readonly set: (account: string, secret: string) => Promise<void>
  /** Nothing happens when there is none. */
  readonly remove: (account: string) => Promise<void>
}
