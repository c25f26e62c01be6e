import type { Secret } from '../lib/secret.ts'
import { MINUTE_MS } from '../lib/time.ts'
import type { Workflow } from './workflow.ts'

/** The dialects that are spoken over HTTP: OpenAI's, Anthropic's Messages, Google's generateContent, stable-diffusion.cpp's, ComfyUI's. */
export type RemoteDialect = 'openai' | 'anthropic' | 'gemini' | 'sdcpp' | 'comfyui'

/** The fields of a chat call that may limit its answer. OpenAI's newer models refuse the first; some servers don't know the second. */
export const MAX_TOKENS_FIELDS = ['max_tokens', 'max_completion_tokens'] as const
export type MaxTokensField = (typeof MAX_TOKENS_FIELDS)[number]

/** A server that speaks one of them. */
export interface RemoteProviderSettings {
  readonly name: string
  readonly dialect: RemoteDialect
  /** http or https, without a trailing slash; the path of a call is appended. */
  readonly baseUrl: string
  /** Sent in the dialect's own header; null: nothing is sent. */
  readonly apiKey: Secret | null
  /** Additional headers, names in lower case. */
  readonly headers: Readonly<Record<string, Secret>>
  /** Of the dialect `openai` alone: it is asked for its usage in every chunk of a chat answer. Left out: at the end alone. */
  readonly continuousUsage?: boolean
  /** Of the dialect `openai` alone: the field in which the limit of a chat answer is sent. Left out: `max_tokens`. */
  readonly maxTokensField?: MaxTokensField
}

/** A ComfyUI server. */
export interface ComfyuiProviderSettings extends RemoteProviderSettings {
  readonly dialect: 'comfyui'
  /** By the names that targets have: what is run, with places for what a job asks for. */
  readonly workflows: Readonly<Record<string, Workflow>>
}

/** A GGUF file run by a child process of ours. */
interface GgufProviderSettings {
  readonly name: string
  readonly dialect: 'gguf'
  /** Absolute path. */
  readonly file: string
  /** Calls served at the same time; 1 to 64. */
  readonly sequences: number
  /** Context of each sequence, in tokens. */
  readonly contextTokens: number
}

/** Simulated answers at a settable pace. */
export interface SandboxProviderSettings {
  readonly name: string
  readonly dialect: 'sandbox'
  readonly firstTokenMs: number
  /** Null: as fast as they are taken. */
  readonly tokensPerSecond: number | null
  /** Length of every answer that the call does not cut; null: as long as its sentences are. */
  readonly replyTokens: number | null
  /** Seconds of a clip that are made in a second. Null: all at once. */
  readonly videoSecondsPerSecond: number | null
  /** Every call fails so. */
  readonly failure?: SandboxFailureSettings
}

/** The kinds of failure that can be simulated; `providers/dialect/spec.ts` says what each means. */
export const FAILURE_KINDS = [
  'unavailable',
  'timeout',
  'faulty',
  'misconfigured',
  'rejected',
  'context_length',
] as const

interface SandboxFailureSettings {
  readonly kind: (typeof FAILURE_KINDS)[number]
  /** Tokens that come before it; with 0 nothing of an answer does. */
  readonly afterTokens: number
}

/** How a provider is reached, as the settings say; its `name` is what targets refer to. */
export type ProviderSettings =
  | RemoteProviderSettings
  | ComfyuiProviderSettings
  | GgufProviderSettings
  | SandboxProviderSettings

/** The modalities that each dialect can be asked for; the operator must know whether a server has them. */
export const SERVED_MODALITIES: Readonly<Record<ProviderSettings['dialect'], readonly string[]>> = {
  openai: ['chat', 'embedding', 'image', 'video'],
  anthropic: ['chat'],
  gemini: ['chat'],
  sdcpp: ['image', 'video'],
  comfyui: ['video'],
  gguf: ['chat', 'embedding'],
  sandbox: ['chat', 'embedding', 'image', 'video'],
}

/** Deadlines of one attempt at one target, in milliseconds. */
export interface Deadlines {
  /** From asking for a connection to having it. */
  readonly connectMs: number
  /** From the start of an attempt to the first token; of embeddings to the whole answer, of videos to the job being taken; not of images. */
  readonly firstByteMs: number
  /** Between two pieces of an answer, while somebody waits for the next one. */
  readonly silenceMs: number
  /** The whole call, all attempts together. */
  readonly wholeMs: number
}

/** Generous for a cold start (30 to 60 s on the economy tier), and short enough that nothing hangs for good. */
export const DEFAULT_DEADLINES: Deadlines = {
  connectMs: 5_000,
  firstByteMs: 120_000,
  silenceMs: MINUTE_MS,
  wholeMs: 600_000,
}

/** Why several processes run no model: each would have all of it in memory. */
export const ENGINES_REFUSED =
  'GGUF files need --processes 1: use that, or run them in a llama.cpp server and add that as a provider'

/** Calls that a GGUF file serves at the same time, and the context of each, where nothing else is said. */
export const GGUF_DEFAULTS = { sequences: 4, contextTokens: 4_096 } as const

/** The pace of a sandbox where nothing else is said: quick, and slow enough to be seen to stream. */
export const SANDBOX_DEFAULTS = {
  firstTokenMs: 50,
  tokensPerSecond: 200,
  replyTokens: null,
  videoSecondsPerSecond: 2,
} as const

/** Returns whether two settings reach the same provider in the same way, so that what runs for one can go on for the other. */
export function isSameProvider(one: ProviderSettings, other: ProviderSettings): boolean {
  return contentOf(one) === contentOf(other)
}

/** All of its fields, whichever they are. Holds credentials: for comparing within the process, never to be shown. */
function contentOf(provider: ProviderSettings): string {
  if (!('apiKey' in provider)) return JSON.stringify(Object.entries(provider).toSorted())
  const { apiKey, headers, ...rest } = provider
  const revealed = Object.entries(headers).map(([header, value]) => [header, value.reveal()])
  return JSON.stringify([Object.entries(rest).toSorted(), apiKey?.reveal() ?? null, revealed.toSorted()])
}
