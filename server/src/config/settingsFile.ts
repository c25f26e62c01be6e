import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type CheckedSettings, settingsOfChecked } from '../catalog/checked.ts'
import { type LoadedSettings, loadSettings } from '../catalog/load.ts'
import type { SettingsContext } from '../catalog/loadRemote.ts'
import type { Settings } from '../catalog/settings.ts'
import type { SettingsSource } from '../catalog/watch.ts'
import { runFarBehind } from '../infra/farBehind.ts'
import { findProgram } from '../infra/program.ts'
import type { Environment } from '../lib/environment.ts'
import { MINUTE_MS } from '../lib/time.ts'

const CHECK_FILE = join(import.meta.dirname, 'settingsCheck.ts')

/** A check of 10,000 models takes two seconds, and thirty times as long where calls want all processors. */
const CHECK_MOST_MS = 5 * MINUTE_MS

/** A file of 10,000 models is a tenth of it in JSON. A few lines of YAML can name the same thing again and again. */
const CHECKED_BYTES_MOST = 64 << 20

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
    reload: async (clock): Promise<LoadedSettings> => {
      const text = await readFile(path, 'utf8')
      const output = await runFarBehind(CHECK_FILE, textOfTask({ text, around }), {
        clock,
        runMostMs: CHECK_MOST_MS,
        outputBytesMost: CHECKED_BYTES_MOST,
      })
      const checked = checkedFrom(output)
      if (!checked.ok) return checked
      return withOverrides({ ok: true, settings: await settingsOfChecked(checked, contextOf(around), clock) })
    },
  }
}

/** Where a settings file is read; another process can be told. */
interface Around {
  readonly environment: Environment
  readonly directory: string
  /** The address that the server listens on. */
  readonly host: string
  /** Several processes serve by the file. */
  readonly isShared: boolean
}

/** A file that a process of its own checks. */
interface SettingsTask {
  readonly text: string
  readonly around: Around
}

/** A line of JSON, and the file as it is: no text of a large file is escaped on the way, or parsed in one go. */
function textOfTask({ text, around }: SettingsTask): string {
  return `${JSON.stringify(around)}\n${text}`
}

/** Reads what {@link textOfTask} wrote. */
export function settingsTaskFrom(input: string): SettingsTask {
  const end = input.indexOf('\n')
  return { text: input.slice(end + 1), around: JSON.parse(input.slice(0, end)) }
}

/**
 * Returns the answer of a check in lines of JSON: one for all that is wrong; or a first one, which has the number of models, one for the
 * file without its models, and one for each model.
 */
export function textOfChecked(checked: CheckedSettings): string {
  if (!checked.ok) return JSON.stringify(checked)
  const { models, rest } = checked
  return [JSON.stringify({ ok: true, modelCount: models?.length ?? null }), rest, ...(models ?? [])].join('\n')
}

/** Reads what {@link textOfChecked} wrote. Throws where lines are missing. */
export function checkedFrom(output: string): CheckedSettings {
  const [head = '', rest = '', ...models] = output.split('\n')
  const { ok, modelCount, problems } = JSON.parse(head)
  if (!ok) return { ok: false, problems }
  if (models.length !== (modelCount ?? 0)) throw new Error('the answer of the check is cut short')
  return { ok: true, rest, models: modelCount === null ? null : models }
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
