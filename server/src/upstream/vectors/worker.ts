/** The thread for large answers: takes a {@link VectorTask}, answers a {@link VectorAnswer}. Started by `work.ts`. */

import { parentPort } from 'node:worker_threads'
import { BadImages, readImages } from './images.ts'
import { BadVectors, type ReadVectors, readVectors } from './read.ts'
import { TooManyBytes, type VectorText, writeVectors } from './write.ts'

export type VectorTask =
  | {
      readonly id: number
      readonly kind: 'read'
      readonly pieces: readonly Uint8Array<ArrayBuffer>[]
      readonly count: number
    }
  | { readonly id: number; readonly kind: 'write'; readonly text: VectorText }
  | { readonly id: number; readonly kind: 'images'; readonly pieces: readonly Uint8Array<ArrayBuffer>[] }

export type VectorAnswer =
  | { readonly id: number; readonly kind: 'read'; readonly read: ReadVectors }
  | { readonly id: number; readonly kind: 'written'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly kind: 'images'; readonly images: readonly Uint8Array<ArrayBuffer>[] }
  | { readonly id: number; readonly kind: 'bad' | 'bad_images'; readonly reason: string }
  | { readonly id: number; readonly kind: 'too_many_bytes' }

function answer(task: VectorTask): [VectorAnswer, ArrayBuffer[]] {
  const { id } = task
  try {
    if (task.kind === 'read') {
      const read = readVectors(Buffer.concat(task.pieces).toString(), task.count)
      return [{ id, kind: 'read', read }, [read.values.buffer]]
    }
    if (task.kind === 'images') {
      const images = readImages(task.pieces)
      // One piece of memory for all of them.
      return [{ id, kind: 'images', images }, images.slice(0, 1).map(({ buffer }) => buffer)]
    }
    const bytes = writeVectors(task.text)
    return [{ id, kind: 'written', bytes }, [bytes.buffer]]
  } catch (error) {
    if (error instanceof BadVectors) return [{ id, kind: 'bad', reason: error.message }, []]
    if (error instanceof BadImages) return [{ id, kind: 'bad_images', reason: error.message }, []]
    if (error instanceof TooManyBytes) return [{ id, kind: 'too_many_bytes' }, []]
    throw error
  }
}

parentPort?.on('message', (task: VectorTask) => {
  const [message, moved] = answer(task)
  // Moved, not copied: they may have 64 MiB.
  parentPort?.postMessage(message, moved)
})
