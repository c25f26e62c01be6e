/** Vectors as the `data` of EmbeddingsResponse. Pure. */

import { ProviderFailure } from '../dialect/spec.ts'

export type VectorFormat = 'float' | 'base64'

/** More bytes than one answer may have: it is the answer that came which is too large, however well it was read. */
export class TooManyBytes extends ProviderFailure {
  constructor() {
    super('too_large', 'the vectors, written out, have more bytes than one answer may have')
    this.name = 'TooManyBytes'
  }
}

/** Powers of ten with which most 32-bit floats of a vector can be written in their shortest form. */
const SCALES = [1e8, 1e9, 1e10, 1e11] as const

/**
 * The fewest decimals, or nearly, that name this 32-bit float and no other. Half as long as what JSON makes of it, which
 * names a 64-bit one.
 */
export function shortest(value: number): string {
  for (const scale of SCALES) {
    const rounded = Math.round(value * scale) / scale
    if (Math.fround(rounded) === value) return String(rounded)
  }
  return String(value)
}

/** The vectors and the text around them that are written as one answer. */
export interface VectorText {
  /** One vector of `dimensions` numbers after the other. */
  readonly values: Float32Array<ArrayBuffer>
  readonly dimensions: number
  readonly format: VectorFormat
  /** The text before the list; ASCII. */
  readonly before: string
  readonly after: string
  readonly maxBytes: number
}

/** The list of Embedding objects, and what stands around it. Throws {@link TooManyBytes} as soon as it has more than may be. */
export function writeVectors(text: VectorText): Uint8Array<ArrayBuffer> {
  const { values, dimensions, format, before, after, maxBytes } = text
  const count = values.length / dimensions
  const pieceOf = (index: number) => {
    const vector = values.subarray(index * dimensions, (index + 1) * dimensions)
    const embedding = format === 'base64' ? `"${toBase64(vector)}"` : toDecimals(vector)
    const open = index === 0 ? '[' : ','
    const close = index === count - 1 ? ']' : ''
    return `${open}{"object":"embedding","index":${index},"embedding":${embedding}}${close}`
  }
  const first = pieceOf(0)
  const written = new GrowingText(before.length + SPARE * first.length * count + after.length, maxBytes)
  written.add(before)
  written.add(first)
  for (let index = 1; index < count; index += 1) written.add(pieceOf(index))
  written.add(after)
  return written.bytes
}

/** How much longer than the first a vector's text is expected to be; and by how much more room is made when it was longer. */
const SPARE = 1.125

/** ASCII, written into memory that is taken once where the guess was right: an answer of 64 MiB is not held twice. */
class GrowingText {
  readonly #maxBytes: number
  #buffer: Buffer<ArrayBuffer>
  #length = 0

  constructor(expectedBytes: number, maxBytes: number) {
    this.#maxBytes = maxBytes
    this.#buffer = Buffer.from(new ArrayBuffer(Math.min(Math.ceil(expectedBytes), maxBytes)))
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#length)
  }

  add(text: string): void {
    const needed = this.#length + text.length
    if (needed > this.#maxBytes) throw new TooManyBytes()
    if (needed > this.#buffer.length) {
      const bytes = Math.min(Math.ceil(SPARE * needed), this.#maxBytes)
      this.#buffer = Buffer.from(this.#buffer.buffer.transfer(bytes))
    }
    this.#length += this.#buffer.write(text, this.#length, 'latin1')
  }
}

function toDecimals(vector: Float32Array): string {
  let text = '['
  for (let index = 0; index < vector.length; index += 1) {
    text += index === 0 ? shortest(vector[index] ?? 0) : `,${shortest(vector[index] ?? 0)}`
  }
  return `${text}]`
}

function toBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (let index = 0; index < vector.length; index += 1) bytes.writeFloatLE(vector[index] ?? 0, index * 4)
  return bytes.toString('base64')
}
