/** Files of our own on the disk: nobody else may read them, and what was written stays. */

import { link, mkdir, open, readFile, rename, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Only the user that the gateway runs as may read what it keeps. */
export const FILE_MODE = 0o600
export const FOLDER_MODE = 0o700

/**
 * The content of a file that the first who asks for it writes, also when several processes ask at once; `tag` tells them
 * apart.
 */
export async function readOrWriteOnce(
  folder: string,
  name: string,
  tag: string,
  make: () => string,
): Promise<{ text: string; path: string }> {
  const path = join(folder, name)
  const read = () => readFile(path, 'utf8').catch(absentAs(null))
  const there = await read()
  if (there !== null) return { text: there, path }
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE })
  const unfinished = `${path}.${tag}`
  await writeFlushed(unfinished, Buffer.from(make()))
  // Unlike a rename, a link never takes the place of what another process wrote meanwhile.
  await link(unfinished, path).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error
  })
  await unlink(unfinished)
  await flushFolder(folder)
  return { text: (await read()) ?? '', path }
}

/** Writes a small file that only this user may read, whole or not at all; takes the place of one that is there. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.unfinished`
  // One that a killed process left may have another mode.
  await unlink(unfinished).catch(absentAs(undefined))
  await writeFlushed(unfinished, Buffer.from(text))
  await rename(unfinished, path)
  await flushFolder(dirname(path))
}

async function writeFlushed(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'w', FILE_MODE)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** The name of a file is in its folder, which has to reach the disk as well. */
export async function flushFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** The code of a system error, such as `ENOENT`. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Answers `value` where there is no such file, and throws on everything else. */
export function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (codeOf(error) === 'ENOENT') return value
    throw error
  }
}
