import { createWriteStream } from 'node:fs'
import { rename, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/** Writes what comes to `path`, whole or not at all; takes the place of a file that is there. The bytes written. */
export async function saveFile(path: string, content: ReadableStream<Uint8Array>): Promise<number> {
  const unfinished = `${path}.unfinished`
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
