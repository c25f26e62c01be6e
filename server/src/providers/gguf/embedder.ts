import type { LlamaEmbeddingContext, LlamaModel } from 'node-llama-cpp'
import { nextTurn } from '../../lib/time.ts'
import { Pool } from './pool.ts'
import { TOKEN_CHARACTERS } from './tokenCharacters.ts'

/** Which input is too long for the model, and by how much. */
export class InputTooLong extends Error {
  constructor(index: number, tokens: number, contextTokens: number) {
    super(`input ${index} has ${tokens} tokens, which exceeds the context size of ${contextTokens} tokens`)
    this.name = 'InputTooLong'
  }
}

export interface Embeddings {
  /** One vector after the other. */
  readonly values: Float32Array<ArrayBuffer>
  readonly dimensions: number
  readonly promptTokens: number
}

/** Makes embeddings, one input at a time. */
export interface Embedder {
  /**
   * Rejects with {@link InputTooLong}, `PoolFull`, or the signal's reason: soon after an abort, since only the
   * input that is being read can't be interrupted.
   */
  embed(inputs: readonly string[], signal: AbortSignal): Promise<Embeddings>
}

/** Characters that are tokenized before others get their turn: some milliseconds. */
const SLICE_CHARACTERS = 32_768

export interface EmbedderOptions {
  readonly contextTokens: number
  readonly threads: number
  readonly maximumWaiting: number
}

/** Takes memory for a context when it is first needed: a model that only chats never needs one. */
export function createEmbedder(model: LlamaModel, options: EmbedderOptions): Embedder {
  const { contextTokens, threads, maximumWaiting } = options
  let opening: Promise<LlamaEmbeddingContext> | null = null
  // One call after the other, so that who came first is served first, and who leaves gives up its place at once.
  const turns = new Pool(['turn'], maximumWaiting)

  const open = async (): Promise<LlamaEmbeddingContext> => {
    // Models that look at a text in both directions read all of it in one batch.
    const making = model.createEmbeddingContext({ contextSize: contextTokens, batchSize: contextTokens, threads })
    opening = making
    try {
      return await making
    } catch (error) {
      opening = null
      throw error
    }
  }
  const embed = async (inputs: readonly string[], signal: AbortSignal): Promise<Embeddings> => {
    const context = await (opening ?? open())
    let promptTokens = 0
    let characters = 0
    for (const [index, input] of inputs.entries()) {
      const isHopeless = input.length > contextTokens * TOKEN_CHARACTERS
      const tokens = isHopeless ? input.length / TOKEN_CHARACTERS : context.calculateInputLength(input)
      if (tokens >= contextTokens) throw new InputTooLong(index, Math.ceil(tokens), contextTokens)
      promptTokens += tokens
      characters += input.length
      if (characters < SLICE_CHARACTERS) continue
      characters = 0
      await nextTurn()
      signal.throwIfAborted()
    }
    let values: Float32Array<ArrayBuffer> | null = null
    let dimensions = 0
    for (const [index, input] of inputs.entries()) {
      signal.throwIfAborted()
      const { vector } = await context.getEmbeddingFor(input)
      dimensions = vector.length
      values ??= new Float32Array(inputs.length * dimensions)
      values.set(normalized(vector), index * dimensions)
    }
    return { values: values ?? new Float32Array(), dimensions, promptTokens }
  }
  return {
    async embed(inputs, signal) {
      const turn = await turns.take(signal)
      try {
        return await embed(inputs, signal)
      } finally {
        turns.giveBack(turn)
      }
    },
  }
}

/** Of length one, as servers of OpenAI's form give them. */
function normalized(vector: readonly number[]): readonly number[] {
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((number) => number / length)
}
