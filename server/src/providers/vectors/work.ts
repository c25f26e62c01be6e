import { createThreadCalls } from '../../infra/threadCalls.ts'
import type { Log } from '../../lib/log.ts'
import { BadImages, readImages } from './images.ts'
import { BadVectors, type ReadVectors, readVectors } from './read.ts'
import type { VectorAnswer, VectorTask } from './worker.ts'
import { TooManyBytes, type VectorText, writeVectors } from './write.ts'

/** Up to here reading and writing take the event loop some 5 ms at most; what is larger is done in another thread. */
const READ_HERE_BYTES = 1 << 20
const WRITE_HERE_NUMBERS = 16_384

/** Reads and writes vectors, and reads images, without holding up other calls. */
export interface VectorWork {
  /**
   * As `readVectors`, of a text in UTF-8. Takes the pieces over, each of which has a buffer to itself (as `ByteBlocks` makes
   * them): nobody may use them afterwards.
   */
  read(pieces: readonly Uint8Array<ArrayBuffer>[], count: number): Promise<ReadVectors>
  /** As `readImages`; takes the pieces over as `read` does. */
  readImages(pieces: readonly Uint8Array<ArrayBuffer>[]): Promise<readonly Uint8Array<ArrayBuffer>[]>
  /** As `writeVectors`; takes the values over. */
  write(text: VectorText): Promise<Uint8Array<ArrayBuffer>>
  close(): Promise<void>
}

/** With one thread, started when first needed. When that fails, the work given to it fails, and the next work starts another. */
export function createVectorWork(log: Log): VectorWork {
  const file = new URL('./worker.ts', import.meta.url)
  const thread = createThreadCalls<VectorTask, VectorAnswer>({ file, failed: 'the thread for vectors failed', log })
  const ask = async (task: VectorTask, moved: readonly ArrayBuffer[]): Promise<VectorAnswer> => {
    const answer = await thread.call(task, moved)
    if (answer.kind === 'bad') throw new BadVectors(answer.reason)
    if (answer.kind === 'bad_images') throw new BadImages(answer.reason)
    if (answer.kind === 'too_many_bytes') throw new TooManyBytes()
    return answer
  }
  return {
    async read(pieces, count) {
      if (bytesOf(pieces) <= READ_HERE_BYTES) return readVectors(Buffer.concat(pieces).toString(), count)
      const moved = pieces.map(({ buffer }) => buffer)
      const answer = await ask({ kind: 'read', pieces, count }, moved)
      if (answer.kind !== 'read') throw new Error('the thread for vectors answered something else')
      return answer.read
    },
    async readImages(pieces) {
      if (bytesOf(pieces) <= READ_HERE_BYTES) return readImages(pieces)
      const moved = pieces.map(({ buffer }) => buffer)
      const answer = await ask({ kind: 'images', pieces }, moved)
      if (answer.kind !== 'images') throw new Error('the thread for vectors answered something else')
      return answer.images
    },
    async write(text) {
      if (text.values.length <= WRITE_HERE_NUMBERS) return writeVectors(text)
      const answer = await ask({ kind: 'write', text }, [text.values.buffer])
      if (answer.kind !== 'written') throw new Error('the thread for vectors answered something else')
      return answer.bytes
    },
    close: thread.close,
  }
}

function bytesOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}
