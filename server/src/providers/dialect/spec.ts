/**
 * The interface between the gateway and whatever serves a model. A dialect (one folder each) turns this into its own
 * wire format and back, and does nothing else: deadlines, failover and money are not its business. It honours the
 * signal it is given.
 */

import type { Arriving } from '../../lib/arriving.ts'
import { type MemoryReservation, NO_MEMORY_MESSAGE, NO_MEMORY_RETRY_AFTER_SECONDS } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** Numbers in a vector, far above every model's: a bound on what a request can make a provider try, and a lying server us hold. */
export const DIMENSIONS_MOST = 65_536

/** A chat call, validated, with the target's own model name. */
export interface ChatCall {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  /** At least 1, or null for the model's own limit. */
  readonly maxTokens: number | null
  /**
   * The most tokens of the answer: `maxTokens`, or else the model's limit in the settings, for APIs that must be told
   * one.
   */
  readonly outputTokens: number
  /** 0 to 2, or null for the model's default. */
  readonly temperature: number | null
}

export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls'

/**
 * One part of an answer, in the order the provider sends it. `text` is never empty. `reasoning` is text that the
 * model spent tokens on and that is not part of the answer: counted, never forwarded. `finish` comes at most once.
 * `usage` may come several times (running totals): the last one counts.
 */
export type ChatEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'finish'; readonly reason: FinishReason }
  | { readonly kind: 'usage'; readonly usage: TokenUsage }

/**
 * Why a call to a provider came to nothing (C7 maps these to the wire):
 * - `unavailable`: not reached, refused, 429 or 5xx
 * - `timeout`: a deadline passed
 * - `faulty`: an answer that makes no sense: HTML, truncated, malformed
 * - `misconfigured`: 401, 403, 404 and the like: our settings are wrong, the operator must know
 * - `rejected`: 400, 413, 422: the provider does not take this request
 * - `context_length`: the prompt is too long for the model
 * - `too_large`: the answer has more bytes than one request may get
 */
export type ProviderFailureKind =
  | 'unavailable'
  | 'timeout'
  | 'faulty'
  | 'misconfigured'
  | 'rejected'
  | 'context_length'
  | 'too_large'

/** More facts about a failure. A field that is left out is unknown, and then nothing is asked twice. */
export interface ProviderFailureOptions {
  /** True when no byte of an answer had come and another target may be asked (never true for `rejected`). */
  readonly mayFailOver?: boolean
  /** Seconds that the provider asked us to wait, if it did. */
  readonly retryAfterSeconds?: number | null
  /** Words for the client that are wholly ours, where more can be said than the kind; nothing that a provider wrote. */
  readonly publicMessage?: string | null
  /** For the operator's log: the setting that helps, where one is known; wholly ours too. */
  readonly advice?: string | null
  /**
   * True when the target is known not to be at work on the call: it was not reached, or it answered that it can't take it now.
   * Where bytes were sent and no answer came, nobody knows, and the same target is not asked again.
   */
  readonly mayAskAgain?: boolean
}

/** Thrown by dialects and by routing. `detail` is for the operator's log and never reaches a client. */
export class ProviderFailure extends Error implements Required<ProviderFailureOptions> {
  readonly kind: ProviderFailureKind
  readonly mayFailOver: boolean
  readonly retryAfterSeconds: number | null
  readonly publicMessage: string | null
  readonly advice: string | null
  readonly mayAskAgain: boolean

  constructor(kind: ProviderFailureKind, detail: string, options: ProviderFailureOptions = {}) {
    super(detail)
    this.name = 'ProviderFailure'
    this.kind = kind
    this.mayFailOver = options.mayFailOver ?? false
    this.retryAfterSeconds = options.retryAfterSeconds ?? null
    this.publicMessage = options.publicMessage ?? null
    this.advice = options.advice ?? null
    this.mayAskAgain = options.mayAskAgain ?? false
  }
}

/**
 * There is no memory for one more large answer, and the line of those that wait for some is full. It is our own doing, and
 * says nothing of the provider.
 */
export class NoMemoryLeft extends ProviderFailure {
  constructor() {
    super('unavailable', 'too many large answers at once', {
      retryAfterSeconds: NO_MEMORY_RETRY_AFTER_SECONDS,
      publicMessage: NO_MEMORY_MESSAGE,
    })
    this.name = 'NoMemoryLeft'
  }
}

/** The events of an answer, in their order. One `next()` at a time. */
export interface ChatEvents extends AsyncIterator<ChatEvent, unknown>, Arriving<ChatEvent> {
  /** After an abort, returns the events that had come and nobody had read: they are charged, and forwarded to nobody. Never rejects. */
  left?(): Promise<readonly ChatEvent[]>
}

/** An answer that has begun. */
export interface ChatAnswer {
  [Symbol.asyncIterator](): ChatEvents
}

/** A call for embeddings, validated, with the target's own model name. */
export interface EmbedCall {
  readonly model: string
  /** 1 to 2048 texts, none empty. */
  readonly inputs: readonly string[]
  /** At least 1, or null for the model's own. */
  readonly dimensions: number | null
  /** The end user's opaque id, or null. */
  readonly user: string | null
}

/** Vectors, in the order of the inputs, all of one length. */
export interface Embedded {
  /** One vector after the other: `dimensions` numbers each, all finite. */
  readonly values: Float32Array<ArrayBuffer>
  readonly dimensions: number
  /** As the provider counted them: a safe integer, not negative. Null: it did not say. */
  readonly promptTokens: number | null
}

/** A call for images, validated, with the target's own model name. */
export interface DrawCall {
  readonly model: string
  readonly prompt: string
  /** At least 1. */
  readonly count: number
  /** In pixels; null: the model's own. */
  readonly size: ImageSize | null
}

export interface ImageSize {
  readonly width: number
  readonly height: number
}

/**
 * The images of a call: at least one, in base64 (RFC 4648, padded, without white space; ASCII), perhaps fewer than
 * asked for.
 */
export type Drawn = readonly Uint8Array<ArrayBuffer>[]

/** A video to be made, validated, with the target's own model name. */
export interface VideoCall {
  readonly model: string
  readonly prompt: string
  /** Whole seconds, at least 1. */
  readonly seconds: number
  /** In pixels; null: the model's own. */
  readonly size: ImageSize | null
  /** Ours, one for each attempt: where a provider lets clients name its jobs, the job is found again by it. */
  readonly attemptId: string
}

/** The state of a provider's job. `unknown`: the provider does not know the job, or not any more. */
export type VideoState =
  | { readonly kind: 'waiting' }
  /** `progress` from 0 to 100; null: it does not say. */
  | { readonly kind: 'working'; readonly progress: number | null }
  | { readonly kind: 'done' }
  /** `detail` is for the operator's log. */
  | { readonly kind: 'failed'; readonly code: 'upstream_error' | 'content_policy'; readonly detail: string }
  | { readonly kind: 'unknown' }

/** Jobs of a provider that makes videos. All reject as `chat` does. */
export interface VideoWork {
  /** Resolves with the provider's id of the job. */
  submit(call: VideoCall, signal: AbortSignal, connectMs: number): Promise<string>
  /**
   * Resolves with the id of the provider's job for an attempt whose answer was lost; null: the provider has none. Absent: the provider
   * can't be asked that.
   */
  find?(attemptId: string, signal: AbortSignal, connectMs: number): Promise<string | null>
  look(jobId: string, signal: AbortSignal, connectMs: number): Promise<VideoState>
  /** Files are made when they are fetched: so long may pass before the first piece. Absent: they are there. */
  readonly filesTakeMs?: number
  /** The mp4 of a job that is done, in pieces; throws ProviderFailure where it breaks off. */
  download(jobId: string, signal: AbortSignal, connectMs: number): Promise<AsyncIterable<Uint8Array>>
  /** Ends the work as far as the provider can; harmless when it is over. */
  cancel(jobId: string, signal: AbortSignal, connectMs: number): Promise<void>
}

/** One server (or in-process engine) of one dialect. */
export interface Provider {
  /** Its name in the settings file. */
  readonly name: string
  /**
   * Starts a streamed chat call. Resolves when the provider has begun to answer (a success status and its headers);
   * rejects with {@link ProviderFailure} or, after an abort, with anything. The iterable throws ProviderFailure if the
   * answer breaks off. Ending the iteration early (`return`) or aborting cancels the provider's work. Where something has
   * to be connected to, that takes at most `connectMs`; then the provider is `unavailable`. `onWritten` is told when the
   * whole request has been written, so that the provider may be at work on it; perhaps more than once.
   */
  chat(call: ChatCall, signal: CallSignal, connectMs: number, onWritten?: () => void): Promise<ChatAnswer>
  /**
   * Makes embeddings; rejects, cancels and tells what was written as `chat` does. Absent where the dialect has none. For an answer of more
   * than `LARGE_BYTES` it takes its memory from `memory`, which the caller gives back.
   */
  embed?(
    call: EmbedCall,
    signal: AbortSignal,
    connectMs: number,
    memory: MemoryReservation,
    onWritten?: () => void,
  ): Promise<Embedded>
  /**
   * Makes images; rejects as `chat` does, and cancels, tells and takes memory as `embed` does. Absent where the dialect has none.
   * An image may be charged for by whoever makes it: another target only where none can have been begun, or where a server
   * itself refused the call.
   */
  draw?(
    call: DrawCall,
    signal: AbortSignal,
    connectMs: number,
    memory: MemoryReservation,
    onWritten?: () => void,
  ): Promise<Drawn>
  /** Absent where the dialect makes no videos. */
  readonly video?: VideoWork
}

/** Where a call may go: a server, and the model's name there. */
export interface ProviderTarget {
  readonly provider: Provider
  readonly model: string
  /** Its share beside the others; 1 unless given. */
  readonly weight?: number
  /** Asked only after all that are none. */
  readonly backup?: true
}
