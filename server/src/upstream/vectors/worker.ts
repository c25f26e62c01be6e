/** The thread for large sets of vectors: takes a {@link VectorTask}, answers a {@link VectorAnswer}. Started by `work.ts`. */

import { parentPort } from 'node:worker_threads'
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

export type VectorAnswer =
  | { readonly id: number; readonly kind: 'read'; readonly read: ReadVectors }
  | { readonly id: number; readonly kind: 'written'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly kind: 'bad'; readonly reason: string }
  | { readonly id: number; readonly kind: 'too_many_bytes' }

function answer(task: VectorTask): [VectorAnswer, ArrayBuffer[]] {
  const { id } = task
  try {
    if (task.kind === 'read') {
      const read = readVectors(Buffer.concat(task.pieces).toString(), task.count)
      return [{ id, kind: 'read', read }, [read.values.buffer]]
    }
    const bytes = writeVectors(task.text)
    return [{ id, kind: 'written', bytes }, [bytes.buffer]]
  } catch (error) {
    if (error instanceof BadVectors) return [{ id, kind: 'bad', reason: error.message }, []]
    if (error instanceof TooManyBytes) return [{ id, kind: 'too_many_bytes' }, []]
    throw error
  }
}

parentPort?.on('message', (task: VectorTask) => {
  const [message, moved] = answer(task)
  // Moved, not copied: they may have 64 MiB.
  parentPort?.postMessage(message, moved)
})
