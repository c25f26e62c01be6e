import type { Secret } from '../kernel/secret.ts'

/** The dialects that are spoken over HTTP: OpenAI's, Anthropic's Messages, Google's generateContent, stable-diffusion.cpp's. */
export type RemoteDialect = 'openai' | 'anthropic' | 'gemini' | 'sdcpp'

/** A server that speaks one of them. */
export interface RemoteUpstreamSettings {
  readonly name: string
  readonly dialect: RemoteDialect
  /** http or https, without a trailing slash; the path of a call is appended. */
  readonly baseUrl: string
  /** Sent in the dialect's own header; null: nothing is sent. */
  readonly apiKey: Secret | null
  /** Additional headers, names in lower case. */
  readonly headers: Readonly<Record<string, Secret>>
}

/** A GGUF file run by a child process of ours. */
interface GgufUpstreamSettings {
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
export interface SandboxUpstreamSettings {
  readonly name: string
  readonly dialect: 'sandbox'
  readonly firstTokenMs: number
  /** Null: as fast as they are taken. */
  readonly tokensPerSecond: number | null
  /** Length of every answer that the call does not cut; null: as long as its sentences are. */
  readonly replyTokens: number | null
  /** Every call fails so. */
  readonly failure?: SandboxFailureSettings
}

/** The kinds of failure that can be simulated; `upstream/spec.ts` says what each means. */
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

/** How an upstream is reached, as the settings say; its `name` is what targets refer to. */
export type UpstreamSettings = RemoteUpstreamSettings | GgufUpstreamSettings | SandboxUpstreamSettings

/** What each dialect can be asked for; whether a server of it does that is for the operator to know. */
export const SERVED_MODALITIES: Readonly<Record<UpstreamSettings['dialect'], readonly string[]>> = {
  openai: ['chat', 'embedding', 'image'],
  anthropic: ['chat'],
  gemini: ['chat'],
  sdcpp: ['image'],
  gguf: ['chat', 'embedding'],
  sandbox: ['chat', 'embedding', 'image', 'video'],
}

/** Deadlines of one attempt at one target, in milliseconds. */
export interface Deadlines {
  /** From asking for a connection to having it. */
  readonly connectMs: number
  /** From sending the request to the first byte of the answer; of embeddings, to the last. */
  readonly firstByteMs: number
  /** Between two reads of an answer. */
  readonly silenceMs: number
  /** The whole call, all attempts together. */
  readonly wholeMs: number
}

/** Generous for a cold start (30 to 60 s on the economy tier), and short enough that nothing hangs for good. */
export const DEFAULT_DEADLINES: Deadlines = {
  connectMs: 5_000,
  firstByteMs: 120_000,
  silenceMs: 60_000,
  wholeMs: 600_000,
}

/** Why several processes run no model: each would have all of it in memory. */
export const ENGINES_REFUSED =
  'GGUF files are run by one process: take --processes 1, or run them in a llama.cpp server and name that as an upstream'

/** Calls that a GGUF file serves at the same time, and the context of each, where nothing else is said. */
export const GGUF_DEFAULTS = { sequences: 4, contextTokens: 4_096 } as const

/** The pace of a sandbox where nothing else is said: quick, and slow enough to be seen to stream. */
export const SANDBOX_DEFAULTS = { firstTokenMs: 50, tokensPerSecond: 200, replyTokens: null } as const

/** Whether two settings reach the same upstream in the same way, so that what runs for one can go on for the other. */
export function isSameUpstream(one: UpstreamSettings, other: UpstreamSettings): boolean {
  return contentOf(one) === contentOf(other)
}

/** Holds credentials: for comparing within the process, never to be shown. */
function contentOf(upstream: UpstreamSettings): string {
  if (!('apiKey' in upstream)) return JSON.stringify(Object.entries(upstream).toSorted())
  const { name, dialect, baseUrl, apiKey } = upstream
  const headers = Object.entries(upstream.headers).map(([header, value]) => [header, value.reveal()])
  return JSON.stringify([name, dialect, baseUrl, apiKey?.reveal() ?? null, headers.toSorted()])
}
