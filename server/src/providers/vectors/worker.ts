/** The thread for large answers: takes a {@link VectorTask}, answers a {@link VectorAnswer}. Started by `work.ts`. */

import { answerCalls, type Done } from '../../infra/threadCalls.ts'
import { BadImages, readImages } from './images.ts'
import { BadVectors, type ReadVectors, readVectors } from './read.ts'
import { TooManyBytes, type VectorText, writeVectors } from './write.ts'

export type VectorTask =
  | { readonly kind: 'read'; readonly pieces: readonly Uint8Array<ArrayBuffer>[]; readonly count: number }
  | { readonly kind: 'write'; readonly text: VectorText }
  | { readonly kind: 'images'; readonly pieces: readonly Uint8Array<ArrayBuffer>[] }

export type VectorAnswer =
  | { readonly kind: 'read'; readonly read: ReadVectors }
  | { readonly kind: 'written'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'images'; readonly images: readonly Uint8Array<ArrayBuffer>[] }
  | { readonly kind: 'bad' | 'bad_images'; readonly reason: string }
  | { readonly kind: 'too_many_bytes' }

// The result is moved, not copied: it may have 64 MiB.
function work(task: VectorTask): Done<VectorAnswer> {
  try {
    if (task.kind === 'read') {
      const read = readVectors(Buffer.concat(task.pieces).toString(), task.count)
      return { answer: { kind: 'read', read }, moved: [read.values.buffer] }
    }
    if (task.kind === 'images') {
      const images = readImages(task.pieces)
      // One piece of memory for all of them.
      return { answer: { kind: 'images', images }, moved: images.slice(0, 1).map(({ buffer }) => buffer) }
    }
    const bytes = writeVectors(task.text)
    // Up to 48 MiB, given back at once and not when garbage is collected.
    task.text.values.buffer.transfer(0)
    return { answer: { kind: 'written', bytes }, moved: [bytes.buffer] }
  } catch (error) {
    if (error instanceof BadVectors) return { answer: { kind: 'bad', reason: error.message } }
    if (error instanceof BadImages) return { answer: { kind: 'bad_images', reason: error.message } }
    if (error instanceof TooManyBytes) return { answer: { kind: 'too_many_bytes' } }
    throw error
  }
}

answerCalls(work)
