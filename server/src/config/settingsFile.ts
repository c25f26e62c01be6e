import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type LoadedSettings, loadSettings } from '../catalog/load.ts'
import type { Settings } from '../catalog/settings.ts'
import type { SettingsSource } from '../catalog/watch.ts'
import { findProgram } from '../infra/program.ts'
import type { Environment } from '../lib/environment.ts'

/** Puts what the environment sets over what the file says. */
export type Overrides = (settings: Settings) => Settings

/** The settings file at `path`. `fileName` is what the operator calls it; `isShared`: several processes serve by it. */
export function settingsSource(
  fileName: string,
  path: string,
  environment: Environment,
  overrides: Overrides,
  isShared: boolean,
): SettingsSource {
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
      const text = await readFile(path, 'utf8')
      const programExists = (name: string) => findProgram(name, environment['PATH']) !== null
      const around = {
        environment,
        directory: dirname(path),
        fileExists: existsSync,
        readText,
        programExists,
        isShared,
      }
      const loaded = loadSettings(text, around)
      return loaded.ok ? { ok: true, settings: overrides(loaded.settings) } : loaded
    },
  }
}

const TEXT_MOST_BYTES = 1 << 20

function readText(path: string): string | null {
  try {
    return statSync(path).size <= TEXT_MOST_BYTES ? readFileSync(path, 'utf8') : null
  } catch {
    return null
  }
}
