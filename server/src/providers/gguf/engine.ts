import { randomInt } from 'node:crypto'
import { basename } from 'node:path'
import {
  type ChatHistoryItem,
  type ChatWrapper,
  getLlama,
  type Llama,
  LlamaChat,
  type LlamaContextSequence,
  LlamaLogLevel,
  type LlamaModel,
  resolveChatWrapper,
  type Token,
} from 'node-llama-cpp'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { ChatMessage, FinishReason } from '../dialect/spec.ts'
import { createEmbedder, type Embedder } from './embedder.ts'
import { Pool } from './pool.ts'

/** Context of a sequence where the settings name none; more costs memory for every sequence, used or not. */
const DEFAULT_CONTEXT_TOKENS = 8192

/** The engine wants this many tokens of the context free of prompt and answer, or it would forget the prompt's head. */
const RESERVED_TOKENS = 2

/**
 * A prompt is read in pieces of this size, because reading a piece can't be interrupted: it bounds how long the engine
 * works on for a caller who has hung up. A GPU reads a larger piece in the time that a CPU needs for a small one.
 */
const PROMPT_PIECE_TOKENS = { cpu: 64, gpu: 512 }

/** Where the caller names no temperature: what llama.cpp's own server samples with. */
const DEFAULT_TEMPERATURE = 0.8
const SAMPLING = { topK: 40, topP: 0.95, minP: 0.05 }

/** Names under which a CPU poses as a GPU: many times slower than llama.cpp's own code for CPUs. */
const SOFTWARE_RENDERER = /llvmpipe|lavapipe|swiftshader|softpipe/i

export interface EngineSettings {
  /** The GGUF file (of a split model, its first part). */
  readonly file: string
  /** How many answers are generated at once, at least 1. */
  readonly sequences: number
  /** How many more calls may wait for a sequence. */
  readonly maximumWaiting: number
  /** Context of each sequence in tokens, or null for the model's own up to a bound. */
  readonly contextTokens: number | null
  /** Threads for reckoning on the CPU, or null to leave one core to everybody else. */
  readonly threads: number | null
  /** `auto` takes the best GPU there is. */
  readonly gpu: 'auto' | 'none'
}

/** A chat rendered by the model's own template. */
export interface RenderedPrompt {
  readonly history: ChatHistoryItem[]
  readonly tokens: Token[]
}

export interface Piece {
  readonly kind: 'text' | 'reasoning'
  readonly text: string
  /** The tokens spent up to and with this piece. */
  readonly usage: TokenUsage
}

export interface GenerateOptions {
  readonly prompt: RenderedPrompt
  /** At least 1; the caller has checked that prompt and answer fit the context. */
  readonly maxTokens: number
  readonly temperature: number | null
  readonly signal: AbortSignal
  readonly onPiece: (piece: Piece) => void
}

interface Finished {
  readonly reason: FinishReason
  readonly usage: TokenUsage
}

/** A loaded model and its sequences. */
export interface Engine {
  readonly model: string
  readonly contextTokens: number
  readonly device: string
  readonly sequences: Pool<LlamaContextSequence>
  readonly embedder: Embedder
  render(messages: readonly ChatMessage[]): RenderedPrompt
  /** Returns how many tokens an answer to this prompt may have; under 1 where the prompt does not fit. */
  roomTokens(prompt: RenderedPrompt): number
  /** Generates on a sequence taken from the pool. Rejects with the signal's reason soon after an abort. */
  generate(sequence: LlamaContextSequence, generation: GenerateOptions): Promise<Finished>
}

/** Loads the model. Never builds llama.cpp and never asks the network. Rejects where file or memory do not do. */
export async function loadEngine(settings: EngineSettings, log: (line: string) => void): Promise<Engine> {
  const llama = await openLlama(settings.gpu, log)
  const threads = settings.threads ?? Math.max(1, llama.cpuMathCores - 1)
  llama.maxThreads = threads
  const model = await llama.loadModel({ modelPath: settings.file })
  const wanted = settings.contextTokens ?? DEFAULT_CONTEXT_TOKENS
  const context = await model.createContext({
    sequences: settings.sequences,
    contextSize: Math.min(wanted, model.trainContextSize),
    threads,
  })
  const embedder = createEmbedder(model, {
    contextTokens: Math.min(wanted, model.trainContextSize),
    threads,
    maximumWaiting: settings.maximumWaiting,
  })
  const chatWrapper = resolveChatWrapper(model)
  const sequences = Array.from({ length: settings.sequences }, () => context.getSequence())
  return {
    model: basename(settings.file).replace(/\.gguf$/i, ''),
    contextTokens: context.contextSize,
    device: llama.gpu === false ? 'cpu' : llama.gpu,
    sequences: new Pool(sequences, settings.maximumWaiting),
    embedder,
    render: (messages) => render(messages, chatWrapper, model),
    roomTokens: (prompt) => context.contextSize - RESERVED_TOKENS - prompt.tokens.length,
    generate: (sequence, generation) => generate(sequence, chatWrapper, generation),
  }
}

async function openLlama(gpu: 'auto' | 'none', log: (line: string) => void): Promise<Llama> {
  const options = {
    build: 'never',
    skipDownload: true,
    progressLogs: false,
    logLevel: LlamaLogLevel.warn,
    logger: (_level: string, message: string) => log(message),
  } as const
  if (gpu === 'none') return getLlama({ ...options, gpu: false })
  const llama = await getLlama({ ...options, gpu: 'auto' })
  if (llama.gpu === false) return llama
  const devices = await llama.getGpuDeviceNames()
  if (llama.supportsGpuOffloading && devices.some((device) => !SOFTWARE_RENDERER.test(device))) return llama
  await llama.dispose()
  return getLlama({ ...options, gpu: false })
}

function render(messages: readonly ChatMessage[], chatWrapper: ChatWrapper, model: LlamaModel): RenderedPrompt {
  const history = messages.map(toHistoryItem)
  if (history.at(-1)?.type !== 'model') history.push({ type: 'model', response: [] })
  const { contextText } = chatWrapper.generateContextState({ chatHistory: history })
  return { history, tokens: contextText.tokenize(model.tokenizer) }
}

function toHistoryItem(message: ChatMessage): ChatHistoryItem {
  if (message.role === 'assistant') return { type: 'model', response: [message.content] }
  return { type: message.role, text: message.content }
}

async function generate(
  sequence: LlamaContextSequence,
  chatWrapper: ChatWrapper,
  { prompt, maxTokens, temperature, signal, onPiece }: GenerateOptions,
): Promise<Finished> {
  const before = sequence.tokenMeter.usedOutputTokens
  const usage = (): TokenUsage => ({
    promptTokens: prompt.tokens.length,
    cachedPromptTokens: 0,
    completionTokens: sequence.tokenMeter.usedOutputTokens - before,
  })
  await readPrompt(sequence, prompt.tokens, signal)
  const chat = new LlamaChat({ contextSequence: sequence, chatWrapper })
  try {
    const response = await chat.generateResponse(prompt.history, {
      ...SAMPLING,
      temperature: temperature ?? DEFAULT_TEMPERATURE,
      // Its default is the time in seconds: calls of the same second would get the same answer.
      seed: randomInt(2 ** 31),
      repeatPenalty: false,
      maxTokens,
      signal,
      contextShift: { size: 1, strategy: refuseToForget },
      onResponseChunk: ({ type, text }) => {
        if (text !== '') onPiece({ kind: type === undefined ? 'text' : 'reasoning', text, usage: usage() })
      },
    })
    return { reason: response.metadata.stopReason === 'maxTokens' ? 'length' : 'stop', usage: usage() }
  } finally {
    chat.dispose()
    // Nothing of one caller's prompt stays behind for the next caller to time or to read.
    await sequence.clearHistory()
  }
}

async function readPrompt(sequence: LlamaContextSequence, tokens: readonly Token[], signal: AbortSignal) {
  const pieceTokens = sequence.context.model.llama.gpu === false ? PROMPT_PIECE_TOKENS.cpu : PROMPT_PIECE_TOKENS.gpu
  // The last token stays for the generation, which needs one to start from.
  const readTokens = tokens.length - 1
  for (let start = 0; start < readTokens; start += pieceTokens) {
    signal.throwIfAborted()
    const piece = tokens.slice(start, Math.min(start + pieceTokens, readTokens))
    await sequence.evaluateWithoutGeneratingNewTokens([...piece])
  }
  signal.throwIfAborted()
}

/** The engine's own way with a full context is to drop the oldest messages, unasked. */
function refuseToForget(): never {
  throw new Error('the context is full')
}
