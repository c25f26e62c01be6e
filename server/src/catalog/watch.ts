import type { Log, LogFields } from '../lib/log.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { catalogOf } from './assemble.ts'
import type { Discovered } from './discovered.ts'
import type { LoadedSettings } from './load.ts'
import type { Catalog } from './model.ts'
import { changedFixed, describeProblem, type Settings } from './settings.ts'

/** The settings file, as `config/config.ts` reaches it. */
export interface SettingsSource {
  readonly fileName: string
  /** Differs when the file may have changed; null where there is none. */
  stamp(): Promise<string | null>
  /** Reads and checks the file, in one go. Rejects when it can't be read. */
  load(): Promise<LoadedSettings>
  /** Does the same while calls are served, in a process of its own and in short turns. */
  reload(clock: Clock): Promise<LoadedSettings>
}

export interface LiveCatalogOptions {
  readonly clock: Clock
  readonly log: Log
  /** The settings that were loaded at start. */
  readonly settings: Settings
  /** The models that were found at start; they stay offered through every change of the file. */
  readonly discovered: readonly Discovered[]
  /** The file, which may not be there yet. Null: nothing changes. */
  readonly source: SettingsSource | null
  /** The file's stamp from before `settings` were loaded from it: a change since then is noticed. Null: there was no file. */
  readonly stamp: string | null
  /**
   * Awaited before a catalog takes effect, the first one included: stores its price versions. When it rejects, what was
   * offered before stays, and it is tried again each second.
   */
  beforeActivate(catalog: Catalog): Promise<void>
  /**
   * Called when another catalog has taken effect, with the settings that it is of: what runs for providers that it has not may end. Must
   * not throw.
   */
  afterActivate(catalog: Catalog, settings: Settings): void
}

/** The catalog in force, which follows the settings file. */
export interface LiveCatalog {
  /** Never changes under its holder: a call keeps what it resolved. */
  current(): Catalog
  /** Reads the file again at once (SIGHUP). Resolves when done, to whether what it says is in effect. */
  reload(): Promise<boolean>
  /** Stops watching. */
  close(): void
}

const POLL_MS = SECOND_MS

/** Starts with `settings` and follows the file from there. Rejects when `beforeActivate` does. */
export async function startLiveCatalog(options: LiveCatalogOptions): Promise<LiveCatalog> {
  const first = catalogOf(options.settings, options.discovered, null)
  await options.beforeActivate(first)
  const { source } = options
  if (source === null) {
    return { current: () => first, reload: () => Promise.resolve(true), close: () => {} }
  }
  return new Watcher(options, source, first)
}

class Watcher implements LiveCatalog {
  readonly #options: LiveCatalogOptions
  readonly #source: SettingsSource
  #settings: Settings
  #catalog: Catalog
  /** The stamp of the file as last read, valid or not, so that a bad file is reported once. */
  #readStamp: string | null
  /** True when there ever was a file: a server may start without one. */
  #wasThere: boolean
  /** The file at the last poll. It is read when it stands still for one: an editor may be half done. */
  #seenStamp: string | null
  /** The last message that was logged of a change that is still waiting, so that it is not logged each second. */
  #trouble = ''
  #retry = false
  #cancelPoll: () => void = () => {}
  #closed = false
  #queuedReload: Promise<boolean> | null = null
  /** One reading at a time, in order. */
  #work: Promise<boolean> = Promise.resolve(true)

  constructor(options: LiveCatalogOptions, source: SettingsSource, first: Catalog) {
    this.#options = options
    this.#source = source
    this.#settings = options.settings
    this.#catalog = first
    this.#wasThere = options.stamp !== null
    this.#readStamp = options.stamp
    this.#seenStamp = options.stamp
    this.#schedule()
  }

  current(): Catalog {
    return this.#catalog
  }

  reload(): Promise<boolean> {
    // A reload that has not begun yet will see the file as it is now: one in the queue is enough.
    this.#queuedReload ??= this.#enqueue(() => {
      this.#queuedReload = null
      this.#trouble = ''
      return this.#readFile()
    })
    return this.#queuedReload
  }

  close(): void {
    this.#closed = true
    this.#cancelPoll()
  }

  #schedule(): void {
    if (this.#closed) return
    this.#cancelPoll = this.#options.clock.after(POLL_MS, () => {
      void this.#enqueue(() => this.#poll()).then(() => this.#schedule())
    })
  }

  #enqueue(work: () => Promise<boolean>): Promise<boolean> {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      this.#tell("the settings file can't be read; the settings in force stay", { code: codeOf(error) })
      return false
    })
    return this.#work
  }

  async #poll(): Promise<boolean> {
    const stamp = await this.#source.stamp()
    const stoodStill = stamp === this.#seenStamp
    this.#seenStamp = stamp
    if (!stoodStill) return true
    return stamp === this.#readStamp && !this.#retry ? true : await this.#readFile()
  }

  async #readFile(): Promise<boolean> {
    const stamp = await this.#source.stamp()
    if (stamp !== this.#readStamp) this.#trouble = ''
    this.#readStamp = stamp
    this.#retry = false
    if (stamp === null && !this.#wasThere) return true
    this.#wasThere = true
    if (stamp === null) {
      this.#tell('the settings file is gone; the settings in force stay. Put the file back, or restart without it')
      return false
    }
    // Until the file was read whole; what rejects here is tried again at the next poll.
    this.#retry = true
    const loaded = await this.#source.reload(this.#options.clock)
    this.#retry = false
    if (loaded.ok) return await this.#activate(loaded.settings)
    const problems = loaded.problems.map((problem) => describeProblem(this.#source.fileName, problem))
    this.#tell('the changed settings file has mistakes; the settings in force stay', { problems })
    return false
  }

  async #activate(settings: Settings): Promise<boolean> {
    const next = catalogOf(settings, this.#options.discovered, this.#catalog)
    try {
      await this.#options.beforeActivate(next)
    } catch (error) {
      this.#retry = true
      this.#tell("the changed settings are not in force yet: their prices can't be stored; trying again every second", {
        code: codeOf(error),
      })
      return false
    }
    const { log } = this.#options
    const { fileName } = this.#source
    const restart = changedFixed(this.#options.settings.fixed, settings.fixed)
    const told = changedFixed(this.#settings.fixed, settings.fixed).length === 0
    this.#catalog = next
    this.#settings = settings
    this.#trouble = ''
    this.#options.afterActivate(next, settings)
    log.info({ file: fileName, models: next.models.length }, 'the changed settings are in effect')
    if (restart.length > 0 && !told) {
      log.warn({ file: fileName, settings: restart }, 'these settings changed, and take effect with a restart only')
    }
    return true
  }

  #tell(message: string, fields: LogFields = {}): void {
    const trouble = JSON.stringify([message, fields])
    if (trouble === this.#trouble) return
    this.#trouble = trouble
    this.#options.log.error({ file: this.#source.fileName, ...fields }, message)
  }
}

/** An error's code, such as ENOENT: its message may hold more than belongs into a log. */
function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return 'unknown'
  if ('code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.name : 'unknown'
}
