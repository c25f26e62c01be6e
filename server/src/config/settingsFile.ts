import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type CheckedSettings, settingsOfChecked } from '../catalog/checked.ts'
import { type LoadedSettings, loadSettings } from '../catalog/load.ts'
import type { SettingsContext } from '../catalog/loadRemote.ts'
import type { Settings } from '../catalog/settings.ts'
import type { SettingsSource } from '../catalog/watch.ts'
import { findProgram } from '../infra/program.ts'
import { createThreadCalls } from '../infra/threadCalls.ts'
import type { Environment } from '../lib/environment.ts'

/** Puts what the environment sets over what the file says. */
export type Overrides = (settings: Settings) => Settings

/** The settings file at `path`. `fileName` is what the operator calls it. */
export function settingsSource(
  fileName: string,
  path: string,
  server: Omit<Around, 'directory'>,
  overrides: Overrides,
): SettingsSource {
  const around: Around = { ...server, environment: { ...server.environment }, directory: dirname(path) }
  const withOverrides = (loaded: LoadedSettings): LoadedSettings =>
    loaded.ok ? { ok: true, settings: overrides(loaded.settings) } : loaded
  return {
    fileName,
    stamp: async () => {
      const found = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      // The inode tells a file renamed into place; the change time one whose modification time was put back.
      return found && [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(':')
    },
    load: async (): Promise<LoadedSettings> => {
      return withOverrides(loadSettings(await readFile(path, 'utf8'), contextOf(around)))
    },
    reload: async (log, clock): Promise<LoadedSettings> => {
      const text = await readFile(path, 'utf8')
      const file = new URL('./settingsThread.ts', import.meta.url)
      // A thread for each reading: what it took is given back with it.
      const thread = createThreadCalls<SettingsTask, CheckedSettings>({
        file,
        failed: 'the settings thread failed',
        log,
      })
      try {
        const checked = await thread.call({ text, around })
        if (!checked.ok) return checked
        return withOverrides({ ok: true, settings: await settingsOfChecked(checked, contextOf(around), clock) })
      } finally {
        await thread.close()
      }
    },
  }
}

/** Where a settings file is read; a thread can be told. */
interface Around {
  readonly environment: Environment
  readonly directory: string
  /** The address that the server listens on. */
  readonly host: string
  /** Several processes serve by the file. */
  readonly isShared: boolean
}

/** A file that a thread checks. */
export interface SettingsTask {
  readonly text: string
  readonly around: Around
}

/** The machine as the settings file refers to it: variables, files and programs. */
export function contextOf(around: Around): SettingsContext {
  const programExists = (name: string) => findProgram(name, around.environment['PATH']) !== null
  return { ...around, fileExists: existsSync, readText, programExists }
}

const TEXT_MOST_BYTES = 1 << 20

function readText(path: string): string | null {
  try {
    return statSync(path).size <= TEXT_MOST_BYTES ? readFileSync(path, 'utf8') : null
  } catch {
    return null
  }
}
