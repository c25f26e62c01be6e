import { isDeepStrictEqual } from 'node:util'
import type { ArtifactPlace } from '../infra/artifacts/open.ts'
import { BRAND } from '../lib/brand.ts'
import type { SmtpServer } from '../lib/mail.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import type { Secret } from '../lib/secret.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { DepositChainSettings } from './depositChain.ts'
import type { Model } from './model.ts'
import type { InstanceSettings } from './offering.ts'
import { DEFAULT_GRACE_MS, type Plan } from './plan.ts'
import type { PriceTable } from './price.ts'
import { DEFAULT_DEADLINES, type Deadlines, type ProviderSettings } from './provider.ts'

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
  /** Content of chat messages is accepted as a list of text parts, and their texts are joined. */
  readonly textParts: boolean
}

/** Where traces and metrics are sent as they come about. */
export interface OtlpSettings {
  /** Of a collector that takes OTLP over HTTP, without a trailing slash. */
  readonly endpoint: string
  /** The share of calls that are traced, 0 to 1. */
  readonly traceRatio: number
}

/** The rate limit of a key: a bucket of `burst` requests, refilled at `perSecond`. */
interface RateLimitSettings {
  readonly perSecond: number
  readonly burst: number
}

/** The bytes of kept answers that an organization may have, for requests with an Idempotency-Key (D6). */
interface KeptAnswersSettings {
  readonly bytes: number
  /** In addition for each dollar charged in the last 24 hours. */
  readonly bytesPerDollar: number
}

/** Of webhooks to customers. */
export interface WebhookSettings {
  /** Networks that webhooks may reach beyond the public internet, over plain HTTP too: CIDR ranges or addresses. */
  readonly allow: readonly string[]
  /** A file of PEM certificates of authorities to trust beside the public ones, absolute; null: none. */
  readonly caFile: string | null
  /** Attempts after the first, each so long after the failure before. */
  readonly retryMs: readonly number[]
  /** Tests and redeliveries together that an organization may ask for within a minute. */
  readonly testsPerMinute: number
  /** Pending deliveries of an organization; further ones are dead from the start. */
  readonly pendingMost: number
}

/** The service that takes money for the operator. */
export type PaymentProviderSettings =
  /** Ours, for trying things out: test mode, no real money. */
  | { readonly name: 'local' }
  | {
      readonly name: 'stripe'
      readonly secretKey: Secret
      /** That callbacks are signed with; null: none come, and payments are found by asking. */
      readonly webhookSecret: Secret | null
      /** Stripe computes tax and adds it to each amount. */
      readonly automaticTax: boolean
      /** Another server that speaks Stripe's API, such as one for tests; null: Stripe's own. */
      readonly apiUrl: string | null
    }

/** How organizations pay. */
export interface PaymentSettings {
  readonly provider: PaymentProviderSettings
  /** Bounds of one top-up, in US cents. */
  readonly topUpMinCents: number
  readonly topUpMaxCents: number
}

/** Stablecoins that organizations send. */
export interface DepositSettings {
  /** The extended public key that addresses of the EVM are made from: m/0/<index> beneath it. Null: no such chain is there. */
  readonly xpub: string | null
  readonly minDepositCents: number
  /** Open deposits of an organization at once. */
  readonly openMost: number
  /** Deposits that an organization may begin within 24 hours. */
  readonly perDayMost: number
  /** A transfer of less is neither screened nor credited before the deposit's sum makes it worth that. */
  readonly minTransferCents: number
  readonly expiresMs: number
  /** The server that screens transfers before they are credited; null: none are screened. */
  readonly screening: { readonly url: Secret; readonly bearer: Secret | null } | null
  readonly chains: readonly DepositChainSettings[]
}

/** An identity provider by which people sign in. */
export interface IdentityProviderSettings {
  /** `oidc`: it speaks OpenID Connect. */
  readonly kind: 'oidc' | 'github'
  /** In the paths of its pages. */
  readonly id: string
  /** For people. */
  readonly name: string
  /** The address that it calls itself by; of GitHub, where it is. */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: Secret
}

/** Of people who sign in. */
export interface AccountSettings {
  /** How long a session lasts from its sign-in on. */
  readonly sessionDays: number
  /** True when strangers may register. */
  readonly takesStrangers: boolean
  /** True when people may sign in with passkeys. */
  readonly passkeys: boolean
  readonly identityProviders: readonly IdentityProviderSettings[]
}

/** The payments of a server without a settings file on a loopback address, with the embedded database. */
export const LOCAL_PAYMENTS: PaymentSettings = {
  provider: { name: 'local' },
  topUpMinCents: 500,
  topUpMaxCents: 1_000_000,
}

/** A plan that can be bought there besides credit, to try subscriptions: $20 a month, of no real money. */
export const LOCAL_PLAN: Plan = {
  key: 'sandbox',
  name: 'Sandbox',
  graceMs: DEFAULT_GRACE_MS,
  quota: { inputTokens: 1_000_000, outputTokens: 1_000_000, weeklyTokens: 1_000_000, backstopMicrocents: 0n },
  paymentPrice: 'local_2000_month',
}

/** The settings that change only with a restart: `watch.ts` says so when a changed file differs in one of these. */
export interface FixedSettings {
  readonly logLevel: LogLevel
  /** Look for local model servers and GGUF files at start. On without a settings file; with one, off unless it says so. */
  readonly discovery: boolean
  readonly discoveredPrice: PriceTable
  /** Proxies whose `X-Forwarded-For` is believed: CIDR ranges, IPv4 or IPv6. */
  readonly trustedProxies: readonly string[]
  /** Hosts by which the admin port may be asked beside those of the loopback: names or addresses in lower case, no ports. */
  readonly adminHosts: readonly string[]
  /** Origins whose pages may read the answers of /v1 (E19), such as `https://app.example.com`; empty: none. */
  readonly corsOrigins: readonly string[]
  /** How long open calls may go on after SIGTERM. */
  readonly drainMs: number
  /** How long a call waits for its charge to be posted (E14). */
  readonly chargeDeadlineMs: number
  /** Largest request body, decompressed (E10). */
  readonly bodyLimitBytes: number
  /** Memory of all request bodies under way (K4); at least four bodies of the largest size. */
  readonly bodyMemoryBytes: number
  /** So long a request body may take from the request's head to its last byte (K4). */
  readonly bodyDeadlineMs: number
  /** Messages of one chat request. */
  readonly messagesMost: number
  /** Parts of one multipart form, and of one message. */
  readonly partsMost: number
  /** Inference requests open at once on one key (K4). */
  readonly openRequestsPerKey: number
  /** Failures in a row after which a target is asked behind the others for a while. */
  readonly breakerFailures: number
  /** Of each key (K3). */
  readonly rateLimit: RateLimitSettings
  /** Of each key of a new account (K2). */
  readonly newAccountRateLimit: RateLimitSettings
  /** Videos in progress that an organization may cancel within an hour before it has to wait with the next. */
  readonly videoCancellationsPerHour: number
  /** Videos of an organization that may fail within an hour before it has to wait with the next. */
  readonly videoFailuresPerHour: number
  /** Bytes of kept answers that an organization may have. */
  readonly keptAnswers: KeptAnswersSettings
  /** Videos of an organization that may wait for their turn at once. */
  readonly queuedVideosMost: number
  /** Days for which videos that have ended are kept. */
  readonly videoRetentionDays: number
  /** Days for which single charges are kept; null: for ever. */
  readonly retentionDays: number | null
  /** Below this balance an organization is told so; 0: nobody is. */
  readonly lowBalanceMicrocents: bigint
  /** The mail server for notices; null: they are only logged. */
  readonly smtp: SmtpServer | null
  readonly compat: CompatSettings
  /** Where clips, and large answers that are kept, are. */
  readonly artifacts: ArtifactPlace
  readonly webhooks: WebhookSettings
  /** Null: nothing is sent. */
  readonly otlp: OtlpSettings | null
  /** Where people reach this server, without a path or a trailing slash; null: at the address that it listens on. */
  readonly publicUrl: string | null
  /** Null: nobody can pay. */
  readonly payments: PaymentSettings | null
  /** Null: no stablecoins are taken. */
  readonly deposits: DepositSettings | null
  /** Null: nobody can sign in. */
  readonly accounts: AccountSettings | null
  /** Null: no machines are rented out. */
  readonly instances: InstanceSettings | null
}

const FIXED_KEYS: Readonly<Record<keyof FixedSettings, string>> = {
  logLevel: 'log_level',
  discovery: 'discovery',
  discoveredPrice: 'discovered_price',
  trustedProxies: 'trusted_proxies',
  adminHosts: 'admin_hosts',
  corsOrigins: 'cors_origins',
  drainMs: 'drain_seconds',
  chargeDeadlineMs: 'charge_deadline_seconds',
  bodyLimitBytes: 'body_limit_bytes',
  bodyMemoryBytes: 'body_memory_bytes',
  bodyDeadlineMs: 'body_deadline_seconds',
  messagesMost: 'max_messages',
  partsMost: 'max_parts',
  openRequestsPerKey: 'open_requests_per_key',
  breakerFailures: 'breaker_failures',
  rateLimit: 'rate_limit',
  newAccountRateLimit: 'new_account_rate_limit',
  videoCancellationsPerHour: 'video_cancellations_per_hour',
  videoFailuresPerHour: 'video_failures_per_hour',
  keptAnswers: 'kept_answers',
  queuedVideosMost: 'queued_videos',
  videoRetentionDays: 'video_retention_days',
  retentionDays: 'retention_days',
  lowBalanceMicrocents: 'low_balance_cents',
  smtp: 'smtp',
  compat: 'compat',
  artifacts: 'artifacts',
  webhooks: 'webhooks',
  otlp: 'otlp',
  publicUrl: 'public_url',
  payments: 'payments',
  deposits: 'deposits',
  accounts: 'accounts',
  instances: 'instances',
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
  readonly providers: readonly ProviderSettings[]
  /** Null where the file has no `models` section, or there is no file: the built-in models are served. */
  readonly models: readonly Model[] | null
  /**
   * The plans that organizations may subscribe to; those without a subscription are shown the first. Empty: there are
   * none.
   */
  readonly plans: readonly Plan[]
}

const MEBIBYTE = 1024 * 1024

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
  adminHosts: [],
  corsOrigins: [],
  drainMs: 10 * MINUTE_MS,
  chargeDeadlineMs: 30 * SECOND_MS,
  bodyLimitBytes: 8 * MEBIBYTE,
  bodyMemoryBytes: 32 * MEBIBYTE,
  bodyDeadlineMs: MINUTE_MS,
  messagesMost: 10_000,
  partsMost: 100,
  openRequestsPerKey: 100,
  breakerFailures: 5,
  rateLimit: { perSecond: 100, burst: 200 },
  newAccountRateLimit: { perSecond: 15, burst: 30 },
  videoCancellationsPerHour: 60,
  videoFailuresPerHour: 1_000,
  keptAnswers: { bytes: 1024 * MEBIBYTE, bytesPerDollar: 100 * MEBIBYTE },
  queuedVideosMost: 500,
  videoRetentionDays: 90,
  retentionDays: null,
  lowBalanceMicrocents: 500n * MICROCENTS_PER_CENT,
  smtp: null,
  compat: { maxCompletionTokens: false, neutralParameters: false, embeddingsBase64: false, textParts: false },
  artifacts: { kind: 'folder', path: null },
  // 2.6 hours in all (W3).
  webhooks: {
    allow: [],
    caFile: null,
    retryMs: [30_000, 300_000, 1_800_000, 7_200_000],
    testsPerMinute: 30,
    pendingMost: 10_000,
  },
  otlp: null,
  publicUrl: null,
  payments: null,
  deposits: null,
  accounts: null,
  instances: null,
}

export const DEFAULT_SETTINGS: Settings = {
  fixed: DEFAULT_FIXED_SETTINGS,
  ownedBy: BRAND,
  deadlines: DEFAULT_DEADLINES,
  providers: [],
  models: null,
  plans: [],
}

/** Models and the providers that they need: what the built-in catalog and discovery add to the settings. */
export interface Offer {
  readonly models: readonly Model[]
  readonly providers: readonly ProviderSettings[]
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
