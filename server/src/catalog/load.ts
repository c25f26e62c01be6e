import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { type Path, type Report, readDocument, type SettingsDocument } from './document.ts'
import { AccountsShape, loadAccounts } from './loadAccounts.ts'
import { ArtifactsShape, loadArtifacts } from './loadArtifacts.ts'
import { loadBodies } from './loadBodies.ts'
import { DepositsShape, loadDeposits } from './loadDeposits.ts'
import { HostsShape, loadHosts, loadOrigins, OriginsShape } from './loadHosts.ts'
import { InstancesShape, loadInstances } from './loadInstances.ts'
import { loadModel, type ModelContext } from './loadModel.ts'
import { loadPayments, PaymentsShape, PublicUrlShape } from './loadPayments.ts'
import { loadPlans } from './loadPlan.ts'
import { PricingShape, toPriceTable } from './loadPrice.ts'
import { loadProvider } from './loadProvider.ts'
import type { SettingsContext } from './loadRemote.ts'
import { loadSmtp, SmtpShape } from './loadSmtp.ts'
import type { NamedProviders } from './loadTarget.ts'
import { loadWebhooks, WebhooksShape } from './loadWebhooks.ts'
import type { Model } from './model.ts'
import { DEFAULT_GRACE_MS } from './plan.ts'
import type { PriceTable } from './price.ts'
import { DEFAULT_DEADLINES, type Deadlines, type ProviderSettings } from './provider.ts'
import { checkReach } from './reach.ts'
import {
  DEFAULT_FIXED_SETTINGS,
  DEFAULT_SETTINGS,
  LOG_LEVELS,
  type Settings,
  type SettingsProblem,
} from './settings.ts'
import { closed, label, readShape, seconds, whole } from './shape.ts'
import { reportUnreadSecrets } from './unreadSecrets.ts'

/** A settings file that is good as a whole, or all that is wrong with it. */
export type LoadedSettings =
  | { readonly ok: true; readonly settings: Settings }
  | { readonly ok: false; readonly problems: readonly SettingsProblem[] }

/** Far more than anyone offers; keeps a runaway generator from filling the memory. */
const MODELS_MAX = 10_000
const PROVIDERS_MAX = 500

/** A charge that is tried again after a commit of unknown outcome must find itself: it waits for minutes, never for days. */
const RETENTION_DAYS_LEAST = 7

/** A million dollars. */
const LOW_BALANCE_CENTS_MAX = 100_000_000

/** Each creation of a video may read as many entries of an index of cancellations, and of failures. */
const FREE_ENDS_MAX = 10_000

/** Each creation counts those that wait, up to the setting. */
const QUEUED_VIDEOS_MAX = 10_000

const DAY_SECONDS = 86_400

/** Clients and proxies have given up long before. */
const CHARGE_DEADLINE_SECONDS_MAX = 600

/** The limiter keeps the time between two requests in whole microseconds: at this rate rounding changes it by half a percent at most. */
const RATE_MAX = 10_000
const BURST_MAX = 1_000_000

const RateLimitShape = closed({ requests_per_second: whole(1, RATE_MAX), burst: whole(1, BURST_MAX) }).optional()

const deadline = seconds(0.001, DAY_SECONDS).optional()

/** A tebibyte: nobody keeps more. */
const KEPT_BYTES_MAX = 2 ** 40

const FileShape = closed(
  {
    log_level: z.enum(LOG_LEVELS).optional(),
    discovery: z.boolean().optional(),
    discovered_price: PricingShape.optional(),
    trusted_proxies: z.array(z.string()).max(1_000).optional(),
    admin_hosts: HostsShape,
    cors_origins: OriginsShape,
    drain_seconds: seconds(0, DAY_SECONDS).optional(),
    charge_deadline_seconds: seconds(1, CHARGE_DEADLINE_SECONDS_MAX).optional(),
    body_limit_bytes: whole(1_024, 256 * 1024 * 1024).optional(),
    body_memory_bytes: whole(4_096, 2 ** 40).optional(),
    body_deadline_seconds: seconds(1, DAY_SECONDS).optional(),
    max_messages: whole(1, 30_000).optional(),
    max_parts: whole(1, 10_000).optional(),
    open_requests_per_key: whole(1, 1_000_000).optional(),
    breaker_failures: whole(1, 1_000_000).optional(),
    rate_limit: RateLimitShape,
    new_account_rate_limit: RateLimitShape,
    video_cancellations_per_hour: whole(1, FREE_ENDS_MAX).optional(),
    video_failures_per_hour: whole(1, FREE_ENDS_MAX).optional(),
    kept_answers: closed({
      bytes: whole(0, KEPT_BYTES_MAX).optional(),
      bytes_per_dollar: whole(0, KEPT_BYTES_MAX).optional(),
    }).optional(),
    queued_videos: whole(1, QUEUED_VIDEOS_MAX).optional(),
    video_retention_days: whole(1, 36_500).optional(),
    retention_days: whole(RETENTION_DAYS_LEAST, 36_500).optional(),
    low_balance_cents: whole(0, LOW_BALANCE_CENTS_MAX).optional(),
    smtp: SmtpShape.optional(),
    webhooks: WebhooksShape.optional(),
    compat: closed({
      max_completion_tokens: z.boolean().optional(),
      neutral_parameters: z.boolean().optional(),
      embeddings_base64: z.boolean().optional(),
      text_parts: z.boolean().optional(),
    }).optional(),
    artifacts: ArtifactsShape.optional(),
    otlp: closed({
      endpoint: z
        .string()
        .regex(/^https?:\/\/[^\s?#@]+$/, "must be a collector's address, such as 'http://127.0.0.1:4318'"),
      trace_ratio: z.number().min(0).max(1).default(1),
    }).optional(),
    public_url: PublicUrlShape,
    payments: PaymentsShape,
    deposits: DepositsShape,
    accounts: AccountsShape,
    instances: InstancesShape,
    owned_by: label.optional(),
    deadlines: closed({
      connect_seconds: deadline,
      first_byte_seconds: deadline,
      silence_seconds: deadline,
      whole_seconds: deadline,
    }).optional(),
    providers: z.unknown().optional(),
    models: z.unknown().optional(),
    grace_seconds: whole(0, DAY_SECONDS).optional(),
    plans: z.unknown().optional(),
  },
  {
    port: "the port is not a setting of this file: use '--port' or TOLLGATE_PORT",
    host: "the address is not a setting of this file: use '--host' or TOLLGATE_HOST",
    data_dir: "the data directory is not a setting of this file: use '--data-dir' or TOLLGATE_DATA_DIR",
    database_url: 'it may hold a password, so it must not be in this file: set the environment variable DATABASE_URL',
  },
)

type FileInput = z.infer<typeof FileShape>

/** The keys of the file that hold sections with keys of their own. */
const SECTIONS: ReadonlySet<string> = new Set(
  Object.entries(FileShape.shape).flatMap(([key, shape]) =>
    (shape instanceof z.ZodOptional ? shape.unwrap() : shape) instanceof z.ZodObject ? [key] : [],
  ),
)

/**
 * Reads a settings file. Every problem comes with its line and what to do about it; none quotes a value that may be a
 * credential. Never throws, whatever the text.
 */
export function loadSettings(text: string, context: SettingsContext): LoadedSettings {
  return loadDocument(readSettingsDocument(text), context)
}

/** Reads the text of a settings file as YAML; what is wrong with that are problems of the document. */
export function readSettingsDocument(text: string): SettingsDocument {
  return readDocument(text, SECTIONS)
}

/** Reads a settings file that is YAML, as {@link loadSettings} does. */
export function loadDocument(document: SettingsDocument, context: SettingsContext): LoadedSettings {
  if (document.problems().length > 0) return { ok: false, problems: document.problems() }
  const { settings, modelContext } = loadRest(document, context)
  const models = loadModels(sectionsOf(document)['models'], modelContext, document)
  const problems = document.problems()
  return problems.length > 0 || settings === null
    ? { ok: false, problems }
    : { ok: true, settings: { ...settings, models } }
}

/** Where the rest of the file is wrong, providers and models are checked all the same: one run shows every problem. */
function sectionsOf({ value }: SettingsDocument): Record<string, unknown> {
  return isSection(value) ? value : {}
}

/** All of a file but its models, and what these are checked against. */
interface LoadedRest {
  /** Null where the file's own keys are wrong. */
  readonly settings: Omit<Settings, 'models'> | null
  readonly modelContext: ModelContext
}

/** Reads all but the models. */
export function loadRest(document: SettingsDocument, context: SettingsContext): LoadedRest {
  const { report } = document
  const top = document.value ?? {}
  const read = readShape(FileShape, top, [], report)
  const sections = sectionsOf(document)
  const providers = loadProviders(sections['providers'], context, report)
  const ownedBy = read?.owned_by ?? DEFAULT_SETTINGS.ownedBy
  const hasFfmpeg = context.programExists?.('ffmpeg') ?? false
  const modelContext = { ownedBy, providers, hasFfmpeg }
  const graceMs = read?.grace_seconds === undefined ? DEFAULT_GRACE_MS : read.grace_seconds * 1_000
  const planContext = { graceMs, provider: read?.payments?.provider }
  const plans = loadPlans(sections['plans'], planContext, report, document.lineOf)
  if (read === null) return { settings: null, modelContext }
  const fixed = loadFixed(read, context, report)
  if (context.host !== undefined) checkReach(fixed, context.host, report)
  if (read.payments === undefined) reportUnreadSecrets(sections['payments'], ['payments'], context, report)
  if (!read.accounts?.identity_providers.length) {
    const { identity_providers: unread } = isSection(sections['accounts']) ? sections['accounts'] : {}
    reportUnreadSecrets(unread, ['accounts', 'identity_providers'], context, report)
  }
  const deadlines = loadDeadlines(read.deadlines ?? {}, report)
  const known = [...providers.values()].filter((provider): provider is ProviderSettings => provider !== null)
  return { settings: { fixed, ownedBy, deadlines, providers: known, plans }, modelContext }
}

function isSection(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function loadProviders(value: unknown, context: SettingsContext, report: Report): NamedProviders {
  const providers = new Map<string, ProviderSettings | null>()
  if (value === undefined) return providers
  if (!isSection(value)) {
    report(['providers'], "must be a section with one 'NAME:' for each provider")
    return providers
  }
  const entries = Object.entries(value)
  if (entries.length > PROVIDERS_MAX) report(['providers'], `must have at most ${PROVIDERS_MAX} entries`)
  for (const [name, entry] of entries.slice(0, PROVIDERS_MAX)) {
    let isGood = true
    const noteAndReport: Report = (...problem) => {
      isGood = false
      report(...problem)
    }
    const provider = loadProvider(name, entry, ['providers', name], context, noteAndReport)
    // Targets are not held against a provider that was not read whole.
    providers.set(name, isGood ? provider : null)
  }
  return providers
}

function loadModels(value: unknown, context: ModelContext, document: SettingsDocument): readonly Model[] | null {
  const { report } = document
  if (value === undefined) return null
  if (!Array.isArray(value)) {
    report(['models'], "must be a list: each model starts with '- id: …'")
    return null
  }
  if (value.length > MODELS_MAX) report(['models'], `must have at most ${MODELS_MAX} entries`)
  const entries: unknown[] = value.slice(0, MODELS_MAX)
  const models = entries.map((entry, index) => loadModel(entry, ['models', index], context, report))
  checkUnique(entries, document)
  return models.filter((model): model is Model => model !== null)
}

/** No id or alias stands for two models, also of those with other mistakes. */
function checkUnique(entries: readonly unknown[], { report, lineOf }: SettingsDocument): void {
  const first = new Map<unknown, Path>()
  for (const [index, entry] of entries.entries()) {
    if (!isSection(entry)) continue
    const given: readonly unknown[] = Array.isArray(entry['aliases']) ? entry['aliases'] : []
    const aliases = given.map((alias, position): [unknown, Path] => [alias, ['models', index, 'aliases', position]])
    for (const [name, path] of [[entry['id'], ['models', index, 'id']] as [unknown, Path], ...aliases]) {
      if (typeof name !== 'string') continue
      const earlier = first.get(name)
      if (earlier === undefined) first.set(name, path)
      else report(path, `is already the name of a model, in line ${lineOf(earlier)}: change or remove one of them`)
    }
  }
}

function loadFixed(read: FileInput, context: SettingsContext, report: Report): Settings['fixed'] {
  const defaults = DEFAULT_FIXED_SETTINGS
  let discoveredPrice: PriceTable | null = defaults.discoveredPrice
  if (read.discovered_price !== undefined) {
    discoveredPrice = toPriceTable(read.discovered_price, 'chat', ['discovered_price'], report)
  }
  for (const [index, range] of (read.trusted_proxies ?? []).entries()) {
    if (ipaddr.isValidCIDR(range) || ipaddr.IPv4.isValidFourPartDecimal(range) || ipaddr.IPv6.isValid(range)) continue
    report(['trusted_proxies', index], 'must be an address or a range of addresses, such as 10.0.0.0/8')
  }
  return {
    logLevel: read.log_level ?? defaults.logLevel,
    // With a file, the operator says what is served: nothing is looked for unless asked.
    discovery: read.discovery ?? false,
    discoveredPrice: discoveredPrice ?? defaults.discoveredPrice,
    trustedProxies: read.trusted_proxies ?? defaults.trustedProxies,
    adminHosts: loadHosts(read.admin_hosts ?? [], ['admin_hosts'], report),
    corsOrigins: loadOrigins(read.cors_origins ?? [], ['cors_origins'], report),
    drainMs: read.drain_seconds === undefined ? defaults.drainMs : Math.round(read.drain_seconds * 1_000),
    chargeDeadlineMs:
      read.charge_deadline_seconds === undefined
        ? defaults.chargeDeadlineMs
        : Math.round(read.charge_deadline_seconds * 1_000),
    ...loadBodies(read, report),
    openRequestsPerKey: read.open_requests_per_key ?? defaults.openRequestsPerKey,
    breakerFailures: read.breaker_failures ?? defaults.breakerFailures,
    rateLimit: loadRateLimit(read.rate_limit) ?? defaults.rateLimit,
    newAccountRateLimit: loadRateLimit(read.new_account_rate_limit) ?? defaults.newAccountRateLimit,
    videoCancellationsPerHour: read.video_cancellations_per_hour ?? defaults.videoCancellationsPerHour,
    videoFailuresPerHour: read.video_failures_per_hour ?? defaults.videoFailuresPerHour,
    keptAnswers: {
      bytes: read.kept_answers?.bytes ?? defaults.keptAnswers.bytes,
      bytesPerDollar: read.kept_answers?.bytes_per_dollar ?? defaults.keptAnswers.bytesPerDollar,
    },
    queuedVideosMost: read.queued_videos ?? defaults.queuedVideosMost,
    videoRetentionDays: read.video_retention_days ?? defaults.videoRetentionDays,
    retentionDays: read.retention_days ?? defaults.retentionDays,
    lowBalanceMicrocents:
      read.low_balance_cents === undefined
        ? defaults.lowBalanceMicrocents
        : BigInt(read.low_balance_cents) * MICROCENTS_PER_CENT,
    smtp: read.smtp === undefined ? defaults.smtp : loadSmtp(read.smtp, ['smtp'], context, report),
    webhooks: loadWebhooks(read.webhooks ?? {}, ['webhooks'], context, report),
    compat: {
      maxCompletionTokens: read.compat?.max_completion_tokens ?? defaults.compat.maxCompletionTokens,
      neutralParameters: read.compat?.neutral_parameters ?? defaults.compat.neutralParameters,
      embeddingsBase64: read.compat?.embeddings_base64 ?? defaults.compat.embeddingsBase64,
      textParts: read.compat?.text_parts ?? defaults.compat.textParts,
    },
    artifacts:
      read.artifacts === undefined
        ? defaults.artifacts
        : (loadArtifacts(read.artifacts, ['artifacts'], context, report) ?? defaults.artifacts),
    otlp: read.otlp ? { endpoint: read.otlp.endpoint.replace(/\/+$/, ''), traceRatio: read.otlp.trace_ratio } : null,
    publicUrl: read.public_url?.replace(/\/+$/, '') ?? null,
    payments: read.payments === undefined ? null : loadPayments(read.payments, ['payments'], context, report),
    deposits: read.deposits === undefined ? null : loadDeposits(read.deposits, ['deposits'], context, report),
    accounts: read.accounts === undefined ? null : loadAccounts(read.accounts, ['accounts'], context, report),
    instances:
      read.instances === undefined ? null : loadInstances(read.instances, read.public_url, ['instances'], report),
  }
}

function loadRateLimit(read: FileInput['rate_limit']) {
  return read === undefined ? null : { perSecond: read.requests_per_second, burst: read.burst }
}

function loadDeadlines(read: NonNullable<FileInput['deadlines']>, report: Report): Deadlines {
  const ms = (given: number | undefined, fallbackMs: number) =>
    given === undefined ? fallbackMs : Math.round(given * 1_000)
  const wholeMs = ms(read.whole_seconds, DEFAULT_DEADLINES.wholeMs)
  for (const key of ['connect_seconds', 'first_byte_seconds', 'silence_seconds'] as const) {
    if ((read[key] ?? 0) * 1_000 > wholeMs)
      report(['deadlines', key], `must be at most whole_seconds, ${wholeMs / 1_000}`)
  }
  // A default above a shorter whole deadline is cut to it, so that shortening the whole is one line.
  return {
    connectMs: Math.min(ms(read.connect_seconds, DEFAULT_DEADLINES.connectMs), wholeMs),
    firstByteMs: Math.min(ms(read.first_byte_seconds, DEFAULT_DEADLINES.firstByteMs), wholeMs),
    silenceMs: Math.min(ms(read.silence_seconds, DEFAULT_DEADLINES.silenceMs), wholeMs),
    wholeMs,
  }
}
