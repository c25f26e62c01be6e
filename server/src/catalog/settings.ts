import { isDeepStrictEqual } from 'node:util'
import type { ArtifactPlace } from '../io/artifacts/open.ts'
import { BRAND } from '../kernel/brand.ts'
import type { SmtpServer } from '../kernel/mail.ts'
import type { Model } from './model.ts'
import type { Plan } from './plan.ts'
import { MICROCENTS_PER_CENT, type PriceTable } from './price.ts'
import { DEFAULT_DEADLINES, type Deadlines, type UpstreamSettings } from './upstream.ts'

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const
type LogLevel = (typeof LOG_LEVELS)[number]

/** Leniency towards clients that don't keep to the interface (C9). All off unless the file says otherwise. */
export interface CompatSettings {
  /** `max_completion_tokens` is accepted as another name of `max_tokens`. */
  readonly maxCompletionTokens: boolean
  /** Parameters that are not supported are accepted with the values that change nothing, such as `n: 1`. */
  readonly neutralParameters: boolean
  /** Embeddings are given in base64 where a request asks for that, as official OpenAI clients do by themselves. */
  readonly embeddingsBase64: boolean
}

/** Where traces and metrics are sent as they come about. */
export interface OtlpSettings {
  /** Of a collector that takes OTLP over HTTP, without a trailing slash. */
  readonly endpoint: string
  /** The share of calls that are traced, 0 to 1. */
  readonly traceRatio: number
}

/** What a key may send: a bucket of so many requests, refilled at so many a second. */
interface RateLimitSettings {
  readonly perSecond: number
  readonly burst: number
}

/** Of webhooks to customers. */
export interface WebhookSettings {
  /** Networks that webhooks may reach beyond the public internet, over plain HTTP too: CIDR ranges or addresses. */
  readonly allow: readonly string[]
  /** A file of PEM certificates of authorities to trust beside the public ones, absolute; null: none. */
  readonly caFile: string | null
  /** Attempts after the first, each so long after the failure before. */
  readonly retryMs: readonly number[]
}

/** What can only change with a restart: `watch.ts` says so when a changed file differs in one of these. */
export interface FixedSettings {
  readonly logLevel: LogLevel
  /** Look for local model servers and GGUF files at start. On without a settings file; with one, off unless it says so. */
  readonly discovery: boolean
  readonly discoveredPrice: PriceTable
  /** Proxies whose `X-Forwarded-For` is believed: CIDR ranges, IPv4 or IPv6. */
  readonly trustedProxies: readonly string[]
  /** How long open calls may go on after SIGTERM. */
  readonly drainMs: number
  /** Largest request body, decompressed (E10). */
  readonly bodyLimitBytes: number
  /** Inference requests open at once on one key (K4). */
  readonly openRequestsPerKey: number
  /** Failures in a row after which a target is asked behind the others for a while. */
  readonly breakerFailures: number
  /** Of each key (K3). */
  readonly rateLimit: RateLimitSettings
  /** Of each key of a new organization (K2). */
  readonly newRateLimit: RateLimitSettings
  /** Days for which single charges are kept; null: for ever. */
  readonly retentionDays: number | null
  /** Below this balance an organization is told so; 0: nobody is. */
  readonly lowBalanceMicrocents: bigint
  /** What notices are mailed by; null: they are only logged. */
  readonly smtp: SmtpServer | null
  readonly compat: CompatSettings
  /** Where clips, and large answers that are kept, are. */
  readonly artifacts: ArtifactPlace
  readonly webhooks: WebhookSettings
  /** Null: nothing is sent. */
  readonly otlp: OtlpSettings | null
}

const FIXED_KEYS: Readonly<Record<keyof FixedSettings, string>> = {
  logLevel: 'log_level',
  discovery: 'discovery',
  discoveredPrice: 'discovered_price',
  trustedProxies: 'trusted_proxies',
  drainMs: 'drain_seconds',
  bodyLimitBytes: 'body_limit_bytes',
  openRequestsPerKey: 'open_requests_per_key',
  breakerFailures: 'breaker_failures',
  rateLimit: 'rate_limit',
  newRateLimit: 'new_account_rate_limit',
  retentionDays: 'retention_days',
  lowBalanceMicrocents: 'low_balance_cents',
  smtp: 'smtp',
  compat: 'compat',
  artifacts: 'artifacts',
  webhooks: 'webhooks',
  otlp: 'otlp',
}

/** Which settings that only a restart changes differ, by their names in the file. */
export function changedFixed(running: FixedSettings, changed: FixedSettings): readonly string[] {
  const keys = Object.keys(FIXED_KEYS) as (keyof FixedSettings)[]
  return keys.filter((key) => !isDeepStrictEqual(running[key], changed[key])).map((key) => FIXED_KEYS[key])
}

/** A settings file that was read and found good, or the defaults where there is none. */
export interface Settings {
  readonly fixed: FixedSettings
  readonly ownedBy: string
  readonly deadlines: Deadlines
  readonly upstreams: readonly UpstreamSettings[]
  /** Null where the file has no `models` section, or there is no file: the built-in models are served. */
  readonly models: readonly Model[] | null
  /** What may be subscribed to, the first one shown to those who are not; empty: nothing. */
  readonly plans: readonly Plan[]
}

/** The settings where there is no file, and of whatever a file leaves out. */
export const DEFAULT_FIXED_SETTINGS: FixedSettings = {
  logLevel: 'info',
  discovery: true,
  discoveredPrice: {
    kind: 'tokens',
    inputMicrocents: 10n * MICROCENTS_PER_CENT,
    outputMicrocents: 30n * MICROCENTS_PER_CENT,
    cachedInputMicrocents: null,
  },
  trustedProxies: [],
  drainMs: 600_000,
  bodyLimitBytes: 8 * 1024 * 1024,
  openRequestsPerKey: 100,
  breakerFailures: 5,
  rateLimit: { perSecond: 100, burst: 200 },
  newRateLimit: { perSecond: 15, burst: 30 },
  retentionDays: null,
  lowBalanceMicrocents: 500n * MICROCENTS_PER_CENT,
  smtp: null,
  compat: { maxCompletionTokens: false, neutralParameters: false, embeddingsBase64: false },
  artifacts: { kind: 'folder', path: null },
  // 2.6 hours in all (W3).
  webhooks: { allow: [], caFile: null, retryMs: [30_000, 300_000, 1_800_000, 7_200_000] },
  otlp: null,
}

export const DEFAULT_SETTINGS: Settings = {
  fixed: DEFAULT_FIXED_SETTINGS,
  ownedBy: BRAND,
  deadlines: DEFAULT_DEADLINES,
  upstreams: [],
  models: null,
  plans: [],
}

/** Models and the upstreams that they need: what the built-in catalog and discovery add to the settings. */
export interface Offer {
  readonly models: readonly Model[]
  readonly upstreams: readonly UpstreamSettings[]
}

/** Something wrong in the settings file, with what to do about it. Never quotes a value that may be a credential. */
export interface SettingsProblem {
  /** From 1. */
  readonly line: number
  /** From 1. */
  readonly column: number
  /** Such as `models[0].pricing.input_per_1m_tokens_cents`; empty for the file as a whole. */
  readonly path: string
  readonly reason: string
}

/** One line for the operator: `file:line:column: path: reason`. */
export function describeProblem(fileName: string, problem: SettingsProblem): string {
  const path = problem.path === '' ? '' : `${problem.path}: `
  return `${fileName}:${problem.line}:${problem.column}: ${path}${problem.reason}`
}
