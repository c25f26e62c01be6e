import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { type Path, type Report, readDocument, type SettingsDocument } from './document.ts'
import { ArtifactsShape, loadArtifacts } from './loadArtifacts.ts'
import { loadModel, type ModelContext } from './loadModel.ts'
import { loadPlans } from './loadPlan.ts'
import { PricingShape, toPriceTable } from './loadPrice.ts'
import type { Surroundings } from './loadRemote.ts'
import { loadSmtp, SmtpShape } from './loadSmtp.ts'
import type { NamedUpstreams } from './loadTarget.ts'
import { loadUpstream } from './loadUpstream.ts'
import { loadWebhooks, WebhooksShape } from './loadWebhooks.ts'
import type { Model } from './model.ts'
import { MICROCENTS_PER_CENT, type PriceTable } from './price.ts'
import {
  DEFAULT_FIXED_SETTINGS,
  DEFAULT_SETTINGS,
  LOG_LEVELS,
  type Settings,
  type SettingsProblem,
} from './settings.ts'
import { closed, label, readShape, seconds, whole } from './shape.ts'
import { DEFAULT_DEADLINES, type Deadlines, type UpstreamSettings } from './upstream.ts'

/** A settings file that is good as a whole, or all that is wrong with it. */
export type LoadedSettings =
  | { readonly ok: true; readonly settings: Settings }
  | { readonly ok: false; readonly problems: readonly SettingsProblem[] }

/** Far more than anyone offers; keeps a runaway generator from filling the memory. */
const MODELS_MAX = 2_000
const UPSTREAMS_MAX = 500

/** A charge that is tried again after a commit of unknown outcome must find itself: it waits for minutes, never for days. */
const RETENTION_DAYS_LEAST = 7

/** A million dollars. */
const LOW_BALANCE_CENTS_MAX = 100_000_000

const DAY_SECONDS = 86_400

/** A token's time is kept in whole microseconds: up to here that is exact to half a percent. */
const RATE_MAX = 10_000
const BURST_MAX = 1_000_000

const RateLimitShape = closed({ requests_per_second: whole(1, RATE_MAX), burst: whole(1, BURST_MAX) }).optional()

const deadline = seconds(0.001, DAY_SECONDS).optional()

const FileShape = closed(
  {
    log_level: z.enum(LOG_LEVELS).optional(),
    discovery: z.boolean().optional(),
    discovered_price: PricingShape.optional(),
    trusted_proxies: z.array(z.string()).max(1_000).optional(),
    drain_seconds: seconds(0, DAY_SECONDS).optional(),
    body_limit_bytes: whole(1_024, 256 * 1024 * 1024).optional(),
    open_requests_per_key: whole(1, 1_000_000).optional(),
    breaker_failures: whole(1, 1_000_000).optional(),
    rate_limit: RateLimitShape,
    new_account_rate_limit: RateLimitShape,
    retention_days: whole(RETENTION_DAYS_LEAST, 36_500).optional(),
    low_balance_cents: whole(0, LOW_BALANCE_CENTS_MAX).optional(),
    smtp: SmtpShape.optional(),
    webhooks: WebhooksShape.optional(),
    compat: closed({
      max_completion_tokens: z.boolean().optional(),
      neutral_parameters: z.boolean().optional(),
      embeddings_base64: z.boolean().optional(),
    }).optional(),
    artifacts: ArtifactsShape.optional(),
    otlp: closed({
      endpoint: z
        .string()
        .regex(/^https?:\/\/[^\s?#@]+$/, "must be a collector's address, such as 'http://127.0.0.1:4318'"),
      trace_ratio: z.number().min(0).max(1).default(1),
    }).optional(),
    owned_by: label.optional(),
    deadlines: closed({
      connect_seconds: deadline,
      first_byte_seconds: deadline,
      silence_seconds: deadline,
      whole_seconds: deadline,
    }).optional(),
    upstreams: z.unknown().optional(),
    models: z.unknown().optional(),
    plans: z.unknown().optional(),
  },
  {
    port: "the port is no setting of this file: use '--port' or TOLLGATE_PORT",
    host: "the address is no setting of this file: use '--host' or TOLLGATE_HOST",
    data_dir: "the data directory is no setting of this file: use '--data-dir' or TOLLGATE_DATA_DIR",
    database_url: 'it may hold a password, so it never stands in this file: set the environment variable DATABASE_URL',
  },
)

type FileInput = z.infer<typeof FileShape>

/**
 * Reads a settings file. Every problem comes with its line and what to do about it; none quotes a value that may be a
 * credential. Never throws, whatever the text.
 */
export function loadSettings(text: string, around: Surroundings): LoadedSettings {
  const document = readDocument(text)
  if (document.problems().length > 0) return { ok: false, problems: document.problems() }
  const settings = loadFile(document, around)
  const problems = document.problems()
  return problems.length > 0 || settings === null ? { ok: false, problems } : { ok: true, settings }
}

function loadFile(document: SettingsDocument, around: Surroundings): Settings | null {
  const { report } = document
  const top = document.value ?? {}
  const read = readShape(FileShape, top, [], report)
  // Where the rest of the file is wrong, upstreams and models are checked all the same: one run shows every problem.
  const sections = isSection(top) ? top : {}
  const upstreams = loadUpstreams(sections['upstreams'], around, report)
  const ownedBy = read?.owned_by ?? DEFAULT_SETTINGS.ownedBy
  const hasFfmpeg = around.programExists?.('ffmpeg') ?? false
  const models = loadModels(sections['models'], { ownedBy, upstreams, hasFfmpeg }, document)
  const plans = loadPlans(sections['plans'], report, document.lineOf)
  if (read === null) return null
  const fixed = loadFixed(read, around, report)
  const deadlines = loadDeadlines(read.deadlines ?? {}, report)
  return {
    fixed,
    ownedBy,
    deadlines,
    upstreams: [...upstreams.values()].filter((upstream): upstream is UpstreamSettings => upstream !== null),
    models,
    plans,
  }
}

function isSection(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function loadUpstreams(value: unknown, around: Surroundings, report: Report): NamedUpstreams {
  const upstreams = new Map<string, UpstreamSettings | null>()
  if (value === undefined) return upstreams
  if (!isSection(value)) {
    report(['upstreams'], "must be a section with one 'NAME:' for each upstream")
    return upstreams
  }
  const entries = Object.entries(value)
  if (entries.length > UPSTREAMS_MAX) report(['upstreams'], `must have at most ${UPSTREAMS_MAX} entries`)
  for (const [name, entry] of entries.slice(0, UPSTREAMS_MAX)) {
    upstreams.set(name, loadUpstream(name, entry, ['upstreams', name], around, report))
  }
  return upstreams
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
  checkUnique(models, document)
  return models.filter((model): model is Model => model !== null)
}

/** No id or alias stands for two models. */
function checkUnique(models: readonly (Model | null)[], { report, lineOf }: SettingsDocument): void {
  const first = new Map<string, Path>()
  for (const [index, model] of models.entries()) {
    if (model === null) continue
    const aliases = model.aliases.map((alias, position): [string, Path] => [
      alias,
      ['models', index, 'aliases', position],
    ])
    for (const [name, path] of [[model.id, ['models', index, 'id']] as [string, Path], ...aliases]) {
      const earlier = first.get(name)
      if (earlier === undefined) first.set(name, path)
      else report(path, `stands for a model already, in line ${lineOf(earlier)}: change or remove one of them`)
    }
  }
}

function loadFixed(read: FileInput, around: Surroundings, report: Report): Settings['fixed'] {
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
    drainMs: read.drain_seconds === undefined ? defaults.drainMs : Math.round(read.drain_seconds * 1_000),
    bodyLimitBytes: read.body_limit_bytes ?? defaults.bodyLimitBytes,
    openRequestsPerKey: read.open_requests_per_key ?? defaults.openRequestsPerKey,
    breakerFailures: read.breaker_failures ?? defaults.breakerFailures,
    rateLimit: loadRateLimit(read.rate_limit) ?? defaults.rateLimit,
    newRateLimit: loadRateLimit(read.new_account_rate_limit) ?? defaults.newRateLimit,
    retentionDays: read.retention_days ?? defaults.retentionDays,
    lowBalanceMicrocents:
      read.low_balance_cents === undefined
        ? defaults.lowBalanceMicrocents
        : BigInt(read.low_balance_cents) * MICROCENTS_PER_CENT,
    smtp: read.smtp === undefined ? defaults.smtp : loadSmtp(read.smtp, ['smtp'], around, report),
    webhooks: loadWebhooks(read.webhooks ?? {}, ['webhooks'], around, report),
    compat: {
      maxCompletionTokens: read.compat?.max_completion_tokens ?? defaults.compat.maxCompletionTokens,
      neutralParameters: read.compat?.neutral_parameters ?? defaults.compat.neutralParameters,
      embeddingsBase64: read.compat?.embeddings_base64 ?? defaults.compat.embeddingsBase64,
    },
    artifacts:
      read.artifacts === undefined
        ? defaults.artifacts
        : (loadArtifacts(read.artifacts, ['artifacts'], around, report) ?? defaults.artifacts),
    otlp: read.otlp ? { endpoint: read.otlp.endpoint.replace(/\/+$/, ''), traceRatio: read.otlp.trace_ratio } : null,
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
