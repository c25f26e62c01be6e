/**
 * The part of node-llama-cpp that this folder uses. The package itself is installed on demand (`install.ts`), and the check of
 * types must do without it.
 */
declare module 'node-llama-cpp' {
  export type Token = number & { readonly __token: never }

  export type ChatHistoryItem = { type: 'system' | 'user'; text: string } | { type: 'model'; response: string[] }

  export interface ChatWrapper {
    generateContextState(options: { chatHistory: readonly ChatHistoryItem[] }): {
      contextText: { tokenize(tokenizer: LlamaModel['tokenizer']): Token[] }
    }
  }

  export interface LlamaEmbeddingContext {
    /** Tokens of a text. */
    calculateInputLength(input: string): number
    getEmbeddingFor(input: string): Promise<{ readonly vector: readonly number[] }>
  }

  export interface LlamaContextSequence {
    readonly context: { readonly model: LlamaModel }
    readonly tokenMeter: { readonly usedOutputTokens: number }
    evaluateWithoutGeneratingNewTokens(tokens: Token[]): Promise<void>
    clearHistory(): Promise<void>
  }

  export interface LlamaModel {
    readonly llama: Llama
    readonly trainContextSize: number
    readonly tokenizer: (text: string, specialTokens?: boolean) => Token[]
    createContext(options: { sequences: number; contextSize: number; threads: number }): Promise<{
      readonly contextSize: number
      getSequence(): LlamaContextSequence
    }>
    createEmbeddingContext(options: {
      contextSize: number
      batchSize: number
      threads: number
    }): Promise<LlamaEmbeddingContext>
  }

  export interface Llama {
    readonly gpu: 'metal' | 'cuda' | 'vulkan' | false
    readonly supportsGpuOffloading: boolean
    readonly cpuMathCores: number
    maxThreads: number
    getGpuDeviceNames(): Promise<string[]>
    loadModel(options: { modelPath: string }): Promise<LlamaModel>
    dispose(): Promise<void>
  }

  export const LlamaLogLevel: { readonly warn: 'warn' }

  export function getLlama(options: {
    build: 'never'
    skipDownload: boolean
    progressLogs: boolean
    logLevel: 'warn'
    logger: (level: string, message: string) => void
    gpu: 'auto' | false
  }): Promise<Llama>

  export class LlamaChat {
    constructor(options: { contextSequence: LlamaContextSequence; chatWrapper: ChatWrapper })
    generateResponse(
      history: ChatHistoryItem[],
      options: {
        temperature: number
        topK: number
        topP: number
        minP: number
        seed: number
        repeatPenalty: false
        maxTokens: number
        signal: AbortSignal
        contextShift: { size: number; strategy: () => never }
        /** A `type` marks what is no part of the answer's text. */
        onResponseChunk: (chunk: { readonly type?: string | undefined; readonly text: string }) => void
      },
    ): Promise<{ readonly metadata: { readonly stopReason: string } }>
    dispose(): void
  }

  export function resolveChatWrapper(model: LlamaModel): ChatWrapper

  export function createModelDownloader(options: {
    modelUri: string
    dirPath: string
    fileName: string
    showCliProgress: boolean
    deleteTempFileOnCancel: boolean
    tokens?: { huggingFace: string }
    endpoints?: { readonly huggingFace: string }
    onProgress: (status: { readonly totalSize: number; readonly downloadedSize: number }) => void
  }): Promise<{
    readonly totalSize: number
    /** Returns where the file is. */
    download(): Promise<string>
    cancel(options: { deleteTempFile: boolean }): Promise<void>
  }>
}
