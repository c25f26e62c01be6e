import { type Clock, nextTurn } from '../../lib/time.ts'
import { type EmbedCall, type Embedded, ProviderFailure } from '../dialect/spec.ts'
import type { SandboxSettings } from './settings.ts'
import { simulate } from './simulate.ts'
import { countTokens } from './tokens.ts'

const DIMENSIONS = 384
const SANDBOX_DIMENSIONS_MOST = 4_096

/** Numbers in one answer: 48 MiB of memory. */
const NUMBERS_MOST = 12_582_912

/** The weight of a whole word beside a run of three characters of it. */
const WORD_WEIGHT = 2
const RUN_LENGTH = 3

/** Characters that are looked at before others get their turn: some 3 ms. */
const SLICE_CHARACTERS = 16_384

/** Simulated embeddings: the same text gets the same vector, and texts that share words or parts of them get near ones. */
export async function sandboxEmbed(
  call: EmbedCall,
  settings: SandboxSettings,
  clock: Clock,
  signal: AbortSignal,
  onBegun?: () => void,
): Promise<Embedded> {
  const { directive, rest } = await simulate(call.inputs[0] ?? '', settings, clock, signal, onBegun)
  const dimensions = call.dimensions ?? DIMENSIONS
  if (dimensions > SANDBOX_DIMENSIONS_MOST) {
    const message = `The sandbox makes vectors of at most ${SANDBOX_DIMENSIONS_MOST} dimensions.`
    throw new ProviderFailure('rejected', 'too many dimensions for the sandbox', { publicMessage: message })
  }
  const { length: count } = call.inputs
  if (count * dimensions > NUMBERS_MOST) throw new ProviderFailure('too_large', 'too many numbers for the sandbox')
  const values = new Float32Array(count * dimensions)
  const vector = new Float64Array(dimensions)
  let promptTokens = 0
  let characters = 0
  for (const [index, input] of call.inputs.entries()) {
    promptTokens += countTokens(input)
    vector.fill(0)
    const text = (index === 0 ? rest : input).toLowerCase()
    for (let at = 0; at < text.length; at += SLICE_CHARACTERS) {
      const slice = text.slice(at, at + SLICE_CHARACTERS)
      addFeatures(slice, vector)
      characters += slice.length + dimensions
      if (characters < SLICE_CHARACTERS) continue
      characters = 0
      await nextTurn()
      signal.throwIfAborted()
    }
    writeNormalized(vector, values, index * dimensions)
  }
  const counted = directive.prompt_tokens ?? promptTokens
  return { values, dimensions, promptTokens: directive.no_usage ? null : counted }
}

/** Adds the words of a text, and the runs of three characters in them, each at a place and with a sign of its own. */
function addFeatures(text: string, vector: Float64Array): void {
  for (const word of text.split(/[^\p{L}\p{N}]+/u)) {
    if (word === '') continue
    add(vector, hash(word, 0, word.length), WORD_WEIGHT)
    const padded = ` ${word} `
    for (let at = 0; at + RUN_LENGTH <= padded.length; at += 1) add(vector, hash(padded, at, at + RUN_LENGTH), 1)
  }
}

function add(vector: Float64Array, feature: number, weight: number): void {
  const place = (feature >>> 1) % vector.length
  vector[place] = (vector[place] ?? 0) + ((feature & 1) === 0 ? weight : -weight)
}

/** FNV-1a, with its bits mixed once more: low bits decide the sign. */
function hash(text: string, start: number, end: number): number {
  let mixed = 0x811c9dc5
  for (let at = start; at < end; at += 1) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  return (mixed ^ (mixed >>> 13)) >>> 0
}

/** Writes the vector at `offset`, scaled to length one. A text without words, or whose features cancel out, gets the first axis. */
function writeNormalized(vector: Float64Array, values: Float32Array, offset: number): void {
  let sum = 0
  // Indexed loops: iterators and callbacks of typed arrays take ten times as long.
  for (let index = 0; index < vector.length; index += 1) sum += (vector[index] ?? 0) ** 2
  if (sum === 0) {
    values[offset] = 1
    return
  }
  const scale = 1 / Math.sqrt(sum)
  for (let index = 0; index < vector.length; index += 1) values[offset + index] = (vector[index] ?? 0) * scale
}
