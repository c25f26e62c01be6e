/** The facts about a paid call that its trace has. Nothing that a client or a model wrote is part of it. */

/** In the words of OpenTelemetry's conventions, which have none of their own for images and videos: what a model puts out says it. */
export type TracedOperation = 'chat' | 'embeddings' | 'generate_content'

export interface TracedCall {
  readonly operation: TracedOperation
  /** The canonical id. */
  readonly model: string
  readonly tier: string
  readonly organizationId: string
  readonly keyId: string
  readonly isStreamed: boolean
  readonly maxTokens: number | null
  readonly temperature: number | null
  /** Of embeddings: how many numbers a vector is to have; null where the model's own. */
  readonly dimensions?: number | null
  /** Of images: how many are asked for. */
  readonly images?: number
  /** Of a video: the job that is to be created, and the seconds that are asked for. */
  readonly job?: { readonly id: string; readonly seconds: number }
  /** The header of that name (W3C Trace Context), as the client sent it. */
  readonly traceparent: string | null
}

export interface CallEnd {
  /** Why it failed or was cut: a code of ours, or `cancelled`; null for an answer that is whole. */
  readonly error: string | null
  readonly finishReason: string | null
  /** The tokens that were charged for; null where none were. */
  readonly usage: {
    readonly promptTokens: number
    readonly cachedPromptTokens: number
    readonly completionTokens: number
  } | null
  readonly costMicrocents: bigint | null
  /** Of images: how many were delivered. */
  readonly images?: number
}

/** One call under way. */
export interface CallTrace {
  /** An attempt at one target has just ended. `model` is the target's own name. */
  attempt(provider: string, model: string, outcome: string, elapsedMs: number): void
  /** The first token of a stream is here. */
  firstToken(): void
  /** The call is over. Told once. */
  end(end: CallEnd): void
}

/** Something that was asked of a provider for a job, by whatever process works on it. */
export interface TracedStep {
  readonly job: string
  readonly step: 'submit' | 'poll' | 'fetch'
  readonly provider: string
  /** The target's own name of the model. */
  readonly model: string
  readonly outcome: string
  readonly elapsedMs: number
}

export interface Telemetry {
  begin(call: TracedCall): CallTrace
  /** A step has just ended. Those of a job are one trace, whose id is the job's: no process needs to know another's spans. */
  step(step: TracedStep): void
  /** Sends what has not been sent, for a few seconds at most. */
  close(): Promise<void>
}
