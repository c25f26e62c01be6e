import { type DrawCall, type Drawn, ProviderFailure } from '../dialect/spec.ts'
import { BadImages } from '../vectors/images.ts'
import type { VectorWork } from '../vectors/work.ts'

/** Bytes of a whole answer: ten images of 4 megapixels, uncompressed but for base64, have about as many. */
export const IMAGES_MOST_BYTES = 128 << 20

/** Models that give base64 always, and refuse to be asked for it. */
const BASE64_ALWAYS = /(^|\/)(chat)?gpt-image/

/** Returns the body of `POST …/images/generations`. Without a size, the model's own applies. */
export function drawToWire({ model, prompt, count, size }: DrawCall): string {
  return JSON.stringify({
    model,
    prompt,
    n: count,
    size: size === null ? undefined : `${size.width}x${size.height}`,
    response_format: BASE64_ALWAYS.test(model) ? undefined : 'b64_json',
  })
}

/**
 * The images of an answer, whatever its size, without holding up other calls; what is none among them is left out. Takes the
 * pieces over. Throws {@link ProviderFailure} where there is none at all.
 */
export async function drawnFromWire(pieces: readonly Uint8Array<ArrayBuffer>[], work: VectorWork): Promise<Drawn> {
  try {
    return await work.readImages(pieces)
  } catch (error) {
    if (error instanceof BadImages) throw new ProviderFailure('faulty', error.message)
    throw error
  }
}
