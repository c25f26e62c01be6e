import type { Discovered } from '../catalog/discovered.ts'
import type { Config, ConfigFlags, LoadedConfig } from '../config/config.ts'
import type { Database } from '../infra/postgres/database.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Clock, Timers } from '../lib/time.ts'

/** All that commands touch of the machine, so that a test can put its own in place. */
export interface CommandContext {
  /** A date is the database's alone: it comes with {@link CommandDatabase}. */
  readonly clock: Timers
  readonly randomBytes: RandomBytes
  /** Writes a part of what a command prints as it goes on. */
  readonly stdout: (text: string) => void
  /** Writes a result; rejects with the system's error when it can't be written whole. */
  readonly print: (text: string) => Promise<void>
  /** True when a person reads stdout: a secret is shown by itself only there. */
  readonly stdoutIsTerminal: boolean
  /** How wide a table on stdout may be: as the terminal; without bound where a pipe or a file takes it. */
  readonly stdoutColumns: number
  readonly stderr: (text: string) => void
  /** True when stderr is a terminal: a progress bar is drawn only there. */
  readonly stderrIsTerminal: boolean
  readonly openDatabase: (request: DatabaseRequest) => Promise<CommandDatabase>
  /** Reads flags, environment and settings file. */
  readonly loadConfig: (flags: ConfigFlags) => Promise<LoadedConfig>
  /** Where the installation's data are, absolute; throws CommandFailure when that can't be told. */
  readonly dataDirectory: (flags: ConfigFlags) => string
  /** Installs the engine for GGUF files where it is missing, and fetches a file, if one is named, into `<data directory>/models`. */
  readonly pullModel: (pull: ModelPull) => Promise<PulledModel | null>
  /** Installs the client of Kubernetes where it is missing; whether it was. */
  readonly installClusterClient: (options: { readonly onInstalling: () => void }) => Promise<boolean>
  /** Looks for local model servers and GGUF files, as a start does; makes nothing. */
  readonly findModels: (config: Config) => Promise<readonly Discovered[]>
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
  /** The database's clock (E20). */
  readonly clock: Clock
  /** The migrations that were applied as it was opened, in order. */
  readonly migrated: readonly string[]
  /** Gives everything back; stops a server that was started for this. */
  readonly release: () => Promise<void>
}

export interface ModelPull {
  /** Absolute. */
  readonly dataDirectory: string
  /** As typed: `hf:OWNER/REPO/FILE.gguf`; null: the engine alone. */
  readonly source: string | null
  /** Told before the engine is installed, which may take minutes. */
  readonly onInstalling: () => void
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
