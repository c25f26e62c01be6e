import { mkdir, readdir, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Artifacts } from '../src/infra/artifacts.ts'

/** Files of a folder, without the care that the real ones take. `failing` makes every write fail. */
export function openTestArtifacts(folder: string): Artifacts & { failing: boolean } {
  const sizeOf = (name: string) =>
    stat(join(folder, name)).then(
      ({ size }) => size,
      () => null,
    )
  return {
    failing: false,
    async write(name, pieces, bytesMost) {
      await mkdir(folder, { recursive: true })
      const writer = Bun.file(join(folder, `${name}.unfinished`)).writer()
      let bytes = 0
      try {
        for await (const piece of pieces) {
          bytes += piece.byteLength
          if (bytes > bytesMost || this.failing) throw new Error('the disk is full')
          writer.write(piece)
          await writer.flush()
        }
        await writer.end()
        await rename(join(folder, `${name}.unfinished`), join(folder, name))
        return { bytes }
      } catch (error) {
        await writer.end()
        await unlink(join(folder, `${name}.unfinished`)).catch(() => {})
        throw error
      }
    },
    size: sizeOf,
    async read(name, first, last) {
      if ((await sizeOf(name)) === null) return null
      return Bun.file(join(folder, name))
        .slice(first, last + 1)
        .stream()
    },
    remove: (name) => unlink(join(folder, name)).catch(() => {}),
    async *list() {
      yield* await readdir(folder).catch(() => [])
    },
  }
}
