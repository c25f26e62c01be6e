import { type FileHandle, mkdir, open, readdir, rename, stat, statfs, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type RandomBytes, toHex } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { type Artifacts, ArtifactTooLarge, checkArtifactName } from '../artifacts.ts'
import { absentAs, FILE_MODE, FOLDER_MODE, flushFolder } from '../folder.ts'

/** Bytes that are read ahead of whoever takes them, of which there may be thousands. */
const PIECE_BYTES = 64 << 10
/** Of the tag that tells two writers of one name apart. */
const TAG_BYTES = 8
/** The ending of a file's name while it is written. */
const UNFINISHED = 'unfinished'

export interface FolderDependencies {
  readonly clock: Clock
  readonly random: RandomBytes
}

/** The folder at `path`, made with its parents when something is first written. Only our own user may read what is in it. */
export function openFolderArtifacts(path: string, { clock, random }: FolderDependencies): Artifacts {
  const placeOf = (name: string) => join(path, checkArtifactName(name))
  return {
    async write(name, pieces, bytesMost) {
      const place = placeOf(name)
      await makeFolder(path)
      const unfinished = `${place}.${toHex(random(TAG_BYTES))}.${UNFINISHED}`
      const file = await open(unfinished, 'wx', FILE_MODE)
      try {
        const bytes = await fill(file, pieces, bytesMost, clock)
        await rename(unfinished, place)
        await flushFolder(path)
        return { bytes }
      } catch (error) {
        await unlink(unfinished).catch(absentAs(undefined))
        throw error
      }
    },
    size: (name) => stat(placeOf(name)).then(({ size }) => size, absentAs(null)),
    async read(name, first, last) {
      const file = await open(placeOf(name), 'r').catch(absentAs(null))
      return file && streamOf(file, first, last)
    },
    async freeBytes() {
      // The folder is made when something is first written; its parents are on the same disk, or will be.
      for (let place = path; ; place = dirname(place)) {
        const disk = await statfs(place).catch(absentAs(null))
        if (disk !== null) return disk.bavail * disk.bsize
      }
    },
    remove: (name) => unlink(placeOf(name)).catch(absentAs(undefined)),
    async *list(untilMs) {
      for (const name of await readdir(path).catch(absentAs([]))) {
        const found = await stat(join(path, name)).catch(absentAs(null))
        if (found?.isFile() && found.mtimeMs < untilMs) yield name
      }
    },
  }
}

/** Makes the folder and its parents, and flushes each to disk. */
async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: FOLDER_MODE })
  if (first === undefined) return
  for (let made = path; made !== dirname(first); made = dirname(made)) await flushFolder(dirname(made))
}

/** Writes all pieces, flushes and closes the file. */
async function fill(file: FileHandle, pieces: AsyncIterable<Uint8Array>, bytesMost: number, clock: Clock) {
  let bytes = 0
  try {
    for await (const piece of pieces) {
      bytes += piece.byteLength
      if (bytes > bytesMost) throw new ArtifactTooLarge(bytesMost)
      for (let at = 0; at < piece.byteLength; ) at += (await file.write(piece, at)).bytesWritten
    }
    // By the clock that sweeps ask for old files by.
    const seconds = clock.now() / 1_000
    await file.utimes(seconds, seconds)
    await file.sync()
  } finally {
    await file.close()
  }
  return bytes
}

function streamOf(file: FileHandle, first: number, last: number): ReadableStream<Uint8Array> {
  let at = first
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // An error that rejects here after a cancel would end the process: errors go through the stream only.
        try {
          const piece = new Uint8Array(Math.min(PIECE_BYTES, last - at + 1))
          const bytesRead = at > last ? 0 : (await file.read(piece, 0, piece.byteLength, at)).bytesRead
          at += bytesRead
          if (bytesRead > 0) controller.enqueue(piece.subarray(0, bytesRead))
          if (bytesRead > 0 && at <= last) return
          await file.close()
          controller.close()
        } catch (error) {
          await file.close().catch(() => {})
          controller.error(error)
        }
      },
      cancel: () => file.close(),
    },
    { highWaterMark: 0 },
  )
}
