/** A folder of files that are written whole or not at all, and never changed. */

import { link, mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'

/** Only the user that the gateway runs as may read what it keeps. */
const FILE_MODE = 0o600
const FOLDER_MODE = 0o700

export interface Folder {
  /** Writes a file; resolves when it is on the disk for good. Two writers of one name must write the same. */
  write(name: string, bytes: Uint8Array): Promise<void>
  /** Null when there is none of this name. */
  read(name: string): Promise<Uint8Array | null>
  /** Does nothing when there is none. */
  remove(name: string): Promise<void>
  /** Names of files, those of unfinished writes among them. */
  list(): Promise<string[]>
}

/** The folder at `path`, made with its parents when something is first written. */
export function openFolder(path: string): Folder {
  return {
    async write(name, bytes) {
      await mkdir(path, { recursive: true, mode: FOLDER_MODE })
      const unfinished = join(path, `${name}.unfinished`)
      await writeFlushed(unfinished, bytes)
      await rename(unfinished, join(path, name))
      await flushFolder(path)
    },
    read: (name) => readFile(join(path, name)).then((bytes) => new Uint8Array(bytes), absentAs(null)),
    remove: (name) => unlink(join(path, name)).catch(absentAs(undefined)),
    list: () => readdir(path).catch(absentAs([])),
  }
}

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
async function flushFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (codeOf(error) === 'ENOENT') return value
    throw error
  }
}
