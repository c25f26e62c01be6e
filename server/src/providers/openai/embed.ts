import type { EmbedCall, Embedded } from '../dialect/spec.ts'
import { ProviderFailure } from '../dialect/spec.ts'
import { BadVectors } from '../vectors/read.ts'
import type { VectorWork } from '../vectors/work.ts'

/** Bytes of a whole answer, as much as one of ours may have. */
export const EMBEDDINGS_MOST_BYTES = 64 << 20

/** Returns the body of `POST …/embeddings`. Parameters that are null are left out: the model's own apply. */
export function embedToWire({ model, inputs, dimensions, user }: EmbedCall): string {
  return JSON.stringify({
    model,
    input: inputs,
    encoding_format: 'float',
    dimensions: dimensions ?? undefined,
    user: user ?? undefined,
  })
}

/** The answer to a call, whatever its size, without holding up other calls. */
export async function embeddedFromWire(
  pieces: readonly Uint8Array<ArrayBuffer>[],
  { inputs, dimensions }: EmbedCall,
  work: VectorWork,
): Promise<Embedded> {
  let read: Embedded
  try {
    read = await work.read(pieces, inputs.length)
  } catch (error) {
    if (error instanceof BadVectors)
      throw new ProviderFailure('faulty', `the answer is no embeddings: ${error.message}`)
    throw error
  }
  // Some servers ignore what they do not know: then the vectors are not what was asked for.
  if (dimensions !== null && read.dimensions !== dimensions) {
    throw new ProviderFailure('faulty', `the vectors have ${read.dimensions} numbers, ${dimensions} were asked for`)
  }
  return read
}
