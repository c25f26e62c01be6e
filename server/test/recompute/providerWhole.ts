/** The answers of the provider of the random load to calls for embeddings and images, by their plans. */

import type { EmbeddingPlan, ImagePlan, WholePlan, WireImage } from './planWhole.ts'

/** Characters of an image in base64 that are written down: its header, and a name of its own. */
export const HEAD_CHARACTERS = 64

/** An answer, and what is written down of it. */
export interface WholeText {
  readonly json: string
  /** Of embeddings, as it stands in the answer. */
  readonly usage?: unknown
  /** Of images: the head of each; null for an item that has none. */
  readonly images?: readonly (string | null)[]
}

/** With `isWrong`, one that nobody can use, for which nobody may be charged. */
export function wholeText(plan: WholePlan, isWrong: boolean): WholeText {
  return plan.kind === 'embedding' ? embeddingsText(plan, isWrong) : imagesText(plan, isWrong)
}

/** The numbers of a text's vector, which say whose they are. All of them are 32-bit floats. */
export function vectorOf(number: number, index: number, dimensions: number): number[] {
  return Array.from({ length: dimensions }, (_, at) => ((number % 1_024) + index / 16) * (at % 2 === 0 ? 1 : -0.5))
}

function embeddingsText({ number, texts, dimensions, usage }: EmbeddingPlan, isWrong: boolean): WholeText {
  const items = texts.map((_, index) => ({ index, embedding: vectorOf(number, index, dimensions) }))
  // Servers may return embeddings in any order; `index` names the input.
  if (number % 3 === 0) items.reverse()
  const [first] = items
  if (isWrong && first !== undefined) {
    if (number % 3 === 0) items.pop()
    else if (number % 3 === 1) items.push(first)
    else first.embedding = [Number.MAX_VALUE]
  }
  return { json: JSON.stringify({ object: 'list', data: items, usage }), usage: usage ?? null }
}

function imagesText({ number, images }: ImagePlan, isWrong: boolean): WholeText {
  const items = images.map((image, index) => wireText(isWrong ? { ...image, form: 'page' } : image, number, index))
  return {
    json: JSON.stringify({ created: 1, data: items.map((item) => (item === null ? {} : { b64_json: item })) }),
    images: items.map((item) => item?.slice(0, HEAD_CHARACTERS) ?? null),
  }
}

/** An image as it stands in an answer, its header and its name first; the rest of it is nothing. */
function wireText({ form, width, height, bytes }: WireImage, number: number, index: number): string | null {
  if (form === 'missing') return null
  if (form === 'text') return 'this is no base64'
  const head = form === 'page' ? Buffer.from('<html>no</html>') : HEADERS[form](width, height)
  const image = Buffer.alloc(bytes)
  head.copy(image)
  image.writeUInt32BE(number, 40)
  image.writeUInt32BE(index, 44)
  return image.toString('base64')
}

/** By the formats' own descriptions. */
const HEADERS = {
  png(width: number, height: number): Buffer {
    const head = Buffer.from('89504e470d0a1a0a0000000d4948445200000000000000000802000000', 'hex')
    head.writeUInt32BE(width, 16)
    head.writeUInt32BE(height, 20)
    return head
  },
  /** The start of a JFIF file, and the frame right after it. */
  jpeg(width: number, height: number): Buffer {
    const head = Buffer.from('ffd8ffe000104a46494600010100000100010000ffc00011080000000003011100', 'hex')
    head.writeUInt16BE(height, 25)
    head.writeUInt16BE(width, 27)
    return head
  },
  /** The extended form, which says the size of the canvas less one. */
  webp(width: number, height: number): Buffer {
    const head = Buffer.from('524946460000000057454250565038580a00000000000000000000000000', 'hex')
    head.writeUIntLE(width - 1, 24, 3)
    head.writeUIntLE(height - 1, 27, 3)
    return head
  },
}
