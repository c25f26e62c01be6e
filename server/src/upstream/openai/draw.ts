import { asObject } from '../json.ts'
import { type DrawCall, type Drawn, UpstreamFailure } from '../spec.ts'

/** Bytes of a whole answer: ten images of 4 megapixels, uncompressed but for base64, have about as many. */
export const IMAGES_MOST_BYTES = 128 << 20

/** Padded, without white space or line breaks. */
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Models that give base64 always, and refuse to be asked for it. */
const BASE64_ALWAYS = /(^|\/)(chat)?gpt-image/

/** The body of `POST …/images/generations`. What is null is left out: the model's own applies. */
export function drawToWire({ model, prompt, count, size }: DrawCall): string {
  return JSON.stringify({
    model,
    prompt,
    n: count,
    size: size === null ? undefined : `${size.width}x${size.height}`,
    response_format: BASE64_ALWAYS.test(model) ? undefined : 'b64_json',
  })
}

/** The images of an answer; what is none among them is left out. Throws {@link UpstreamFailure} where there is none at all. */
export function drawnFromWire(pieces: readonly Uint8Array[]): Drawn {
  const data = asObject(parse(Buffer.concat(pieces).toString()))?.['data']
  if (!Array.isArray(data)) throw new UpstreamFailure('faulty', 'the answer has no list of images', false)
  const images: string[] = []
  for (const item of data) {
    const image = asObject(item)?.['b64_json']
    if (typeof image === 'string' && image.length % 4 === 0 && BASE64.test(image)) images.push(image)
  }
  if (images.length === 0) throw new UpstreamFailure('faulty', 'the answer has no image in base64', false)
  return images
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new UpstreamFailure('faulty', 'the answer is no JSON', false)
  }
}
