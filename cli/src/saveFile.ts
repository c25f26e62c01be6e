import { createWriteStream } from 'node:fs'
import { open, rename, stat, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CliFailure, UsageMistake } from './failure.ts'
import type { System } from './system.ts'

/**
 * Writes what comes to `path`, whole or not at all; takes the place of a file that is there. The bytes written. Rejects with
 * the system's error, whose `code` says what is wrong with the place, or with what `content` threw.
 */
export async function saveFile(path: string, content: AsyncIterable<Uint8Array>): Promise<number> {
  const unfinished = unfinishedOf(path)
  // Not through a link that somebody else has put there.
  await unlink(unfinished).catch(() => {})
  const file = createWriteStream(unfinished, { flags: 'wx' })
  try {
    await pipeline(Readable.from(content), file)
    await rename(unfinished, path)
  } catch (error) {
    await unlink(unfinished).catch(() => {})
    throw error
  }
  return file.bytesWritten
}

/**
 * Rejects as {@link saveFile} would for one of the files, as far as can be told beforehand: writes `bytesEach` zeros for each of them,
 * all at once, so that a disk without room for them is found. Leaves nothing behind.
 */
export async function checkFiles(paths: readonly string[], bytesEach: number): Promise<void> {
  const made: string[] = []
  try {
    for (const path of paths) {
      const found = await stat(path).catch(() => null)
      // A device such as /dev/null would be replaced by a file.
      if (found !== null && !found.isFile()) throw Object.assign(new Error('not a file'), { code: 'EISDIR' })
      const unfinished = unfinishedOf(path)
      await unlink(unfinished).catch(() => {})
      const file = await open(unfinished, 'wx')
      made.push(unfinished)
      try {
        await file.writeFile(Buffer.alloc(bytesEach))
      } finally {
        await file.close()
      }
    }
  } finally {
    for (const unfinished of made) await unlink(unfinished).catch(() => {})
  }
}

/** A file of this process's own, so that two commands that write the same file do not remove each other's. */
function unfinishedOf(path: string): string {
  return `${path}.${process.pid}.unfinished`
}

/** Refuses an `--output` that can't be written, before anything is paid for. `bytesEach`: how much room each of its files needs. */
export async function checkPlace(
  { checkFiles: check }: System,
  files: readonly string[],
  bytesEach = 0,
): Promise<void> {
  await check(files, bytesEach).catch((error: unknown) => {
    throw new UsageMistake(`--output: ${files.join(', ')} can't be written: ${placeProblem(error)}`)
  })
}

/** Saves bytes; throws {@link CliFailure} with the advice when the place can't be written. */
export async function saveBytes(
  { saveFile: save }: System,
  path: string,
  bytes: Uint8Array,
  advice: string,
): Promise<void> {
  await save(path, piecesOf(bytes)).catch((error: unknown) => {
    throw new CliFailure(`${path} can't be written: ${placeProblem(error)}; ${advice}`, { code: 'not_saved' })
  })
}

async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes
}

/** Returns why a file can't be written, in words. */
export function placeProblem(error: unknown): string {
  switch (error instanceof Error && 'code' in error ? error.code : '') {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'EFBIG':
      return 'a file of this size is not allowed there'
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'this user may not write there'
    case 'ENOENT':
    case 'ENOTDIR':
      return 'there is no such folder'
    case 'EISDIR':
      return 'something else has this name'
    default:
      return error instanceof Error ? error.message : String(error)
  }
}
