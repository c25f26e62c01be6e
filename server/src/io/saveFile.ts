import { createWriteStream } from 'node:fs'
import { open, rename, stat, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * Writes what comes to `path`, whole or not at all; takes the place of a file that is there. The bytes written. Rejects with
 * the system's error, whose `code` says what is wrong with the place, or with what `content` threw.
 */
export async function saveFile(path: string, content: AsyncIterable<Uint8Array>): Promise<number> {
  const unfinished = unfinishedOf(path)
  const file = createWriteStream(unfinished)
  try {
    await pipeline(Readable.from(content), file)
    await rename(unfinished, path)
  } catch (error) {
    await unlink(unfinished).catch(() => {})
    throw error
  }
  return file.bytesWritten
}

/** Rejects as {@link saveFile} would, as far as can be told beforehand. Leaves nothing behind. */
export async function checkFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => null)
  // A device such as /dev/null would be replaced by a file.
  if (found !== null && !found.isFile()) throw Object.assign(new Error('not a file'), { code: 'EISDIR' })
  const unfinished = unfinishedOf(path)
  await (await open(unfinished, 'w')).close()
  await unlink(unfinished)
}

function unfinishedOf(path: string): string {
  return `${path}.unfinished`
}
