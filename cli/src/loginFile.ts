import { chmod, mkdir, readFile, rename, stat, unlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { CliFailure } from './failure.ts'
import type { LoginFile } from './system.ts'

/** A file of logins is small. */
const BYTES_MAX = 1024 * 1024
/** More than a file of some logins has. */
const CHECKED_BYTES = 64 * 1024
const OTHERS = 0o077

/** The file with the logins: under XDG_CONFIG_HOME, or where a system keeps such files. */
export function loginFileOf(
  environment: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform,
): LoginFile {
  const path = join(configFolder(environment, platform), 'tollgate', 'logins.json')
  return {
    path,
    async read() {
      const found = await stat(path).catch((error: unknown) => {
        if (isMissing(error)) return null
        throw unusable(path, error)
      })
      if (found === null) return null
      if (found.size > BYTES_MAX) throw new CliFailure(`${path} is too large: remove it and log in again`)
      if (platform !== 'win32' && (found.mode & OTHERS) !== 0) {
        throw new CliFailure(`other users of this machine may read ${path}: run "chmod 600 ${path}"`)
      }
      return await readFile(path, 'utf8').catch((error: unknown) => {
        throw unusable(path, error)
      })
    },
    write: (text) => writeAside(path, text, (unfinished) => rename(unfinished, path)),
    check: () => writeAside(path, ' '.repeat(CHECKED_BYTES), (unfinished) => unlink(unfinished)),
  }
}

/** Writes a file beside `path`, and hands it to `end`. */
async function writeAside(path: string, text: string, end: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = `${path}.${process.pid}.unfinished`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await writeFile(unfinished, text, { mode: 0o600, flag: 'wx' })
    await chmod(unfinished, 0o600)
    await end(unfinished)
  } catch (error) {
    await unlink(unfinished).catch(() => {})
    throw unusable(path, error)
  }
}

function configFolder(
  { XDG_CONFIG_HOME: xdg, APPDATA: appData }: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform,
): string {
  // The specification of XDG has a path that is not absolute ignored.
  if (xdg !== undefined && isAbsolute(xdg)) return xdg
  if (platform === 'win32' && appData !== undefined && appData !== '') return appData
  return join(homedir(), '.config')
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

function unusable(path: string, error: unknown): CliFailure {
  const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  return new CliFailure(`${path} can't be used (${reason}): set XDG_CONFIG_HOME to a folder that you may write to`)
}
