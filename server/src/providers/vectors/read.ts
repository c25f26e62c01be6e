/** Vectors out of the JSON of `POST …/embeddings`, as servers of OpenAI's form answer it. Pure. */

import { DIMENSIONS_MOST } from '../dialect/spec.ts'

/** The vectors of an answer; see `Embedded` for the meaning. */
export interface ReadVectors {
  readonly values: Float32Array<ArrayBuffer>
  readonly dimensions: number
  readonly promptTokens: number | null
}

/** Why an answer can't be used, in words for the operator that quote nothing of it. */
export class BadVectors extends Error {}

/**
 * Reads an answer to `count` inputs. Each vector goes to the place of its `index`; where no item has one, they are taken in
 * their order. Numbers become 32-bit floats; base64 of such floats is taken too. Throws {@link BadVectors} for everything
 * else: too few or too many, one twice, lengths that differ, what is no finite number.
 */
export function readVectors(text: string, count: number): ReadVectors {
  const answer = asObject(parse(text))
  const items = answer?.['data']
  if (answer === null || !Array.isArray(items)) throw new BadVectors('there is no list of embeddings in it')
  if (items.length !== count) throw new BadVectors(`it has ${items.length} embeddings for ${count} inputs`)
  const isNumbered = items.some((item) => (asObject(item)?.['index'] ?? null) !== null)
  let values: Float32Array<ArrayBuffer> | null = null
  let dimensions = 0
  const taken = new Uint8Array(count)
  for (const [position, item] of items.entries()) {
    const vector = toNumbers(asObject(item)?.['embedding'])
    const index = isNumbered ? asObject(item)?.['index'] : position
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count || taken[index] === 1) {
      throw new BadVectors('its indexes are not those of the inputs')
    }
    taken[index] = 1
    if (values === null) {
      dimensions = vector.length
      if (dimensions === 0 || dimensions > DIMENSIONS_MOST) throw new BadVectors(`a vector has ${dimensions} numbers`)
      values = new Float32Array(count * dimensions)
    } else if (vector.length !== dimensions) throw new BadVectors('its vectors differ in length')
    place(vector, values, index * dimensions)
  }
  if (values === null) throw new BadVectors('it is empty')
  return { values, dimensions, promptTokens: promptTokensOf(answer['usage']) }
}

function place(vector: ArrayLike<unknown>, values: Float32Array, at: number): void {
  for (let offset = 0; offset < vector.length; offset += 1) {
    const number = vector[offset]
    if (typeof number !== 'number') throw new BadVectors('a vector has something else than numbers')
    values[at + offset] = number
    // Too large for a 32-bit float, too, and NaN in base64.
    if (!Number.isFinite(values[at + offset])) throw new BadVectors('a number is not finite')
  }
}

function toNumbers(embedding: unknown): ArrayLike<unknown> {
  if (Array.isArray(embedding)) return embedding
  if (typeof embedding !== 'string') throw new BadVectors('an item has no embedding')
  const bytes = Buffer.from(embedding, 'base64')
  if (bytes.length === 0 || bytes.length % 4 !== 0) throw new BadVectors('an embedding is not base64 of 32-bit floats')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(index * 4, true))
}

/** Null where the server does not say, or says what is no count. */
function promptTokensOf(usage: unknown): number | null {
  const tokens = asObject(usage)?.['prompt_tokens'] ?? asObject(usage)?.['total_tokens']
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0 ? tokens : null
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BadVectors('it is no JSON')
  }
}

function asObject(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : null
}
