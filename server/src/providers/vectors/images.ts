/** Images out of the JSON of `POST …/images/generations`, as servers of OpenAI's form answer it. Pure. */

import { asObject } from '../dialect/json.ts'

/** Why an answer can't be used, in words for the operator that quote nothing of it. */
export class BadImages extends Error {}

/** Padded, without white space or line breaks. */
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * The images of an answer, in base64, one after the other in one piece of memory; what is none among them is left out. Throws
 * {@link BadImages} where there is none at all.
 */
export function readImages(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer>[] {
  const data = asObject(parse(Buffer.concat(pieces).toString()))?.['data']
  if (!Array.isArray(data)) throw new BadImages('the answer has no list of images')
  const texts: string[] = []
  let characters = 0
  for (const item of data) {
    const image = asObject(item)?.['b64_json']
    if (typeof image !== 'string' || image.length % 4 !== 0 || !BASE64.test(image)) continue
    texts.push(image)
    characters += image.length
  }
  if (texts.length === 0) throw new BadImages('the answer has no image in base64')
  const all = new Uint8Array(characters)
  let at = 0
  return texts.map((text) => {
    const image = all.subarray(at, at + text.length)
    new TextEncoder().encodeInto(text, image)
    at += text.length
    return image
  })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BadImages('the answer is no JSON')
  }
}
