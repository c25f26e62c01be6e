import type { Config, ConfigFlags, LoadedConfig, RemoteServer } from '../config.ts'
import type { Fetch } from '../io/fetch.ts'
import type { Database } from '../io/postgres/database.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import type { Clock } from '../kernel/time.ts'

/** All that commands touch of the machine, so that a test can put its own in place. */
export interface Surroundings {
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Whether stderr is a terminal: a progress bar is drawn only there. */
  readonly stderrIsTerminal: boolean
  readonly openDatabase: (request: DatabaseRequest) => Promise<CommandDatabase>
  /** Reads flags, environment and settings file. */
  readonly loadConfig: (flags: ConfigFlags) => Promise<LoadedConfig>
  /** Where the installation's data are, absolute; throws CommandFailure when that can't be told. */
  readonly dataDirectory: (flags: ConfigFlags) => string
  /** The running server that a command talks to; throws CommandFailure when that can't be told. */
  readonly server: (url: string | undefined) => RemoteServer
  readonly fetch: Fetch
  /** Writes a file whole or not at all; the bytes written. */
  readonly saveFile: (path: string, content: AsyncIterable<Uint8Array>) => Promise<number>
  /** Rejects where `saveFile` would, as far as can be told beforehand. */
  readonly checkFile: (path: string) => Promise<void>
  /** Ctrl-C calls back in place of ending the process, once; the result gives that up. */
  readonly onInterrupt: (callback: () => void) => () => void
  /** Fetches a GGUF file into `<data directory>/models`. */
  readonly pullModel: (pull: ModelPull) => Promise<PulledModel>
  /** Runs the gateway until it is stopped; gives the exit code. */
  readonly serve: (options: ServeOptions) => Promise<number>
}

export interface DatabaseRequest {
  readonly flags: ConfigFlags
  /** Migrations may rewrite tables, and then take as long as they need; else a statement is ended after 30 s. */
  readonly patient: boolean
  readonly log: (message: string) => void
}

/** The installation's database, its schema up to date; it works beside a running gateway and without one. */
export interface CommandDatabase {
  readonly database: Database
  /** The migrations that were applied as it was opened, in order. */
  readonly migrated: readonly string[]
  /** Gives everything back; stops a server that was started for this. */
  readonly release: () => Promise<void>
}

export interface ModelPull {
  /** Absolute. */
  readonly dataDirectory: string
  /** As typed: `hf:OWNER/REPO/FILE.gguf`. */
  readonly source: string
  /** Bytes so far and in all. */
  readonly onProgress: (receivedBytes: number, totalBytes: number) => void
}

export interface PulledModel {
  /** Where the file is now. */
  readonly file: string
  readonly sizeBytes: number
  /** 64 hex digits. */
  readonly sha256: string
}

export interface ServeOptions {
  readonly config: Config
  /** Print what is printed at start as JSON. */
  readonly json: boolean
}
