import { z } from 'zod'
import { BRAND } from '../lib/brand.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Path, Report } from './document.ts'
import { DescriptorShape, LIST_MAX, parameterFaults, parameterName, toDescriptor } from './loadParameter.ts'
import { PricingShape, toPriceTable } from './loadPrice.ts'
import { loadRouting, loadTargets, type NamedProviders, RoutingShape, TargetsShape } from './loadTarget.ts'
import {
  CHAT_PARAMETERS,
  DEFAULT_PROMPT_BYTES_PER_TOKEN,
  DEFAULT_VIDEO_RUNNING,
  ECONOMY_SUFFIX,
  isAlias,
  MODALITIES,
  MODEL_STATUSES,
  type Model,
  type Tier,
  type TierName,
  tierOf,
  type VideoRunning,
} from './model.ts'
import { closed, label, readShape, whole } from './shape.ts'

const TOKENS_MAX = 1_000_000_000

const ModelShape = closed(
  {
    id: z.string(),
    modality: z.enum(MODALITIES).default('chat'),
    status: z.enum(MODEL_STATUSES).default('active'),
    aliases: z.array(z.string()).max(LIST_MAX).default([]),
    owned_by: label.optional(),
    author: label.optional(),
    context_length: whole(1, TOKENS_MAX).optional(),
    max_output_tokens: whole(1, TOKENS_MAX).optional(),
    hidden_reasoning_tokens: whole(0, TOKENS_MAX).default(0),
    prompt_bytes_per_token: whole(1, 1_024).optional(),
    created: whole(0, 100_000_000_000).optional(),
    fine_tunable: z.boolean().default(false),
    fine_tune_base_model: label.optional(),
    parameters: z.array(DescriptorShape).max(LIST_MAX).default([]),
    plan_covered: z.boolean().default(false),
    supported_parameters: z.array(parameterName).max(LIST_MAX).optional(),
    usage_factor: z.number().min(0.001).max(1_000).default(1),
    pricing: PricingShape,
    targets: TargetsShape.optional(),
    routing: RoutingShape,
    video: closed({
      concurrency: whole(1, 1_000).optional(),
      deadline_seconds: whole(10, 86_400).optional(),
    }).optional(),
    economy: closed({ pricing: PricingShape, targets: TargetsShape.optional(), routing: RoutingShape }).optional(),
  },
  {
    category: "'category' always mirrors 'modality': remove it",
    object: "'object' is always 'model': remove it",
    price: "prices go under 'pricing'",
    provider: "write 'targets:' with a list of '- { provider: NAME, model: NAME }'",
  },
)

type ModelInput = z.infer<typeof ModelShape>

/** The parts of the settings and of the machine that a model in the file is checked against. */
export interface ModelContext {
  readonly ownedBy: string
  readonly providers: NamedProviders
  /** True when clips of other forms can be turned into mp4. */
  readonly hasFfmpeg: boolean
}

/** Reads one entry of `models`, names of other models aside. Null where something was reported. */
export function loadModel(value: unknown, path: Path, context: ModelContext, report: Report): Model | null {
  const read = readShape(ModelShape, value, path, report, ['modality', 'status'])
  if (read === null) return null
  const checks = [
    checkNames(read, path, report),
    checkModality(read, path, report),
    checkHedging(read, path, report),
    checkFineTuning(read, path, report),
    checkParameters(read, path, report),
    checkFigures(read, path, report),
  ]
  const serverless = loadTier('serverless', read, read, path, context, report)
  const economy = read.economy && loadTier('economy', read.economy, read, [...path, 'economy'], context, report)
  if (serverless === null || economy === null || checks.includes(false)) return null
  const contextTokens = read.context_length ?? 0
  return {
    id: read.id,
    modality: read.modality,
    status: read.status,
    aliases: read.aliases,
    ownedBy: read.owned_by ?? context.ownedBy,
    author: read.author ?? null,
    contextTokens,
    maxOutputTokens: read.modality === 'chat' ? (read.max_output_tokens ?? contextTokens) : 0,
    hiddenReasoningTokens: read.hidden_reasoning_tokens,
    promptBytesPerToken: read.prompt_bytes_per_token ?? DEFAULT_PROMPT_BYTES_PER_TOKEN,
    createdSeconds: read.created ?? null,
    fineTunable: read.fine_tunable,
    fineTuneBaseModel: read.fine_tune_base_model ?? null,
    parameters: read.parameters.map(toDescriptor),
    planCovered: read.plan_covered,
    supportedParameters: read.supported_parameters ?? (read.modality === 'chat' ? CHAT_PARAMETERS : []),
    usageFactorThousandths: Math.round(read.usage_factor * 1_000),
    ...(read.modality === 'video' && { video: videoRunning(read.video) }),
    serverless,
    economy: economy ?? null,
  }
}

function videoRunning(given: ModelInput['video']): VideoRunning {
  const { concurrency, deadlineMs } = DEFAULT_VIDEO_RUNNING
  const seconds = given?.deadline_seconds
  return {
    concurrency: given?.concurrency ?? concurrency,
    deadlineMs: seconds === undefined ? deadlineMs : seconds * SECOND_MS,
  }
}

function loadTier(
  name: TierName,
  tier: Pick<ModelInput, 'pricing' | 'targets' | 'routing'>,
  model: ModelInput,
  path: Path,
  context: ModelContext,
  report: Report,
): Tier | null {
  const price = toPriceTable(tier.pricing, model.modality, [...path, 'pricing'], report)
  const needs = {
    active: model.status === 'active',
    contextTokens: model.context_length ?? 0,
    modality: model.modality,
    hasFfmpeg: context.hasFfmpeg,
    maxOutputTokens: model.max_output_tokens,
  }
  const targets = loadTargets(tier.targets, needs, path, context.providers, report)
  return price === null || targets === null ? null : tierOf(name, price, targets, loadRouting(name, tier.routing))
}

const ID_PATTERN = new RegExp(`^${BRAND}/[a-z0-9][a-z0-9._-]{0,127}$`)

function checkNames(read: ModelInput, path: Path, report: Report): boolean {
  let sound = true
  const reject = (at: Path, reason: string) => {
    report([...path, ...at], reason)
    sound = false
  }
  const taken = `must not end in '${ECONOMY_SUFFIX}': that selects the economy tier, which is set under 'economy'`
  if (read.id.endsWith(ECONOMY_SUFFIX)) reject(['id'], taken)
  else if (!ID_PATTERN.test(read.id)) {
    reject(['id'], `must be '${BRAND}/' and then 1 to 128 of a-z, 0-9, '.', '_' and '-', the first a letter or digit`)
  }
  for (const [index, alias] of read.aliases.entries()) {
    if (alias.endsWith(ECONOMY_SUFFIX)) reject(['aliases', index], taken)
    else if (!isAlias(alias)) reject(['aliases', index], 'must be 1 to 128 printable ASCII characters without spaces')
  }
  return sound
}

function checkModality(read: ModelInput, path: Path, report: Report): boolean {
  const { modality } = read
  let sound = true
  const reject = (key: string, reason: string) => {
    report([...path, key], reason)
    sound = false
  }
  // Holds are computed from it (docs/decisions/0005).
  if (read.context_length === undefined && (modality === 'chat' || modality === 'embedding')) {
    reject('context_length', 'is missing: it must be a whole number')
  }
  if (read.prompt_bytes_per_token !== undefined && modality !== 'chat' && modality !== 'embedding') {
    reject('prompt_bytes_per_token', 'is for chat and embedding models: remove it')
  }
  if (modality !== 'video' && read.video !== undefined) reject('video', 'is for video models: remove it')
  if (modality === 'video' && read.plan_covered) reject('plan_covered', 'no plan ever covers videos: remove it')
  const isSized = read.parameters.some(({ name }) => name === 'size')
  if (read.pricing.per_mpxl_microcents !== undefined && read.status === 'active' && !isSized) {
    // The most that a request may cost follows from it.
    reject('parameters', "must have 'size' with its 'enum' where the price is per megapixel")
  }
  if (modality === 'chat') return sound
  const a = modality === 'video' ? 'a' : 'an'
  if (read.max_output_tokens !== undefined) {
    reject('max_output_tokens', `${a} ${modality} model has no output tokens: remove it`)
  }
  if (read.economy !== undefined) reject('economy', 'only chat models have an economy tier: remove it')
  const length = read.parameters.find(({ name }) => name === 'seconds')
  const isBounded = length?.default !== undefined && length.max !== undefined
  if (read.status === 'active' && modality === 'video' && !isBounded) {
    // The most that a job may cost follows from it, also of one that names no length.
    reject(
      'parameters',
      "must have 'seconds' with 'default' and 'max': '{ name: seconds, type: int, min: 1, max: 8, default: 4 }'",
    )
  }
  return sound
}

/** Answers in one piece have no first token to wait for. */
function checkHedging({ modality, routing }: ModelInput, path: Path, report: Report): boolean {
  if (modality === 'chat' || routing?.hedge_after_ms === undefined) return true
  report([...path, 'routing', 'hedge_after_ms'], 'is for chat models: remove it')
  return false
}

function checkFineTuning(read: ModelInput, path: Path, report: Report): boolean {
  if (read.fine_tune_base_model === undefined) return true
  const at = [...path, 'fine_tune_base_model']
  if (!read.fine_tunable) report(at, "needs 'fine_tunable: true': add that, or remove this")
  else if (read.fine_tune_base_model === read.id)
    report(at, 'must differ from the id: remove it, or name the base model')
  else return true
  return false
}

function checkFigures(read: ModelInput, path: Path, report: Report): boolean {
  const output = read.max_output_tokens
  const thousandths = read.usage_factor * 1_000
  if (output !== undefined && read.context_length !== undefined && output > read.context_length) {
    report([...path, 'max_output_tokens'], `must be at most the context_length, ${read.context_length}`)
  } else if (Math.abs(thousandths - Math.round(thousandths)) > 1e-6) {
    report([...path, 'usage_factor'], 'takes at most three decimals')
  } else {
    return true
  }
  return false
}

function checkParameters(read: ModelInput, path: Path, report: Report): boolean {
  const faults = parameterFaults(read.modality, read.parameters, read.supported_parameters ?? [])
  if (
    read.modality === 'video' &&
    read.status === 'active' &&
    !read.parameters.some(({ name }) => name === 'seconds')
  ) {
    // A job that asks for no length has the default one; what it may cost follows from that.
    report([...path, 'parameters'], "must have 'seconds' with 'type: int' and its 'default'")
    return false
  }
  for (const { at, reason } of faults) report([...path, ...at], reason)
  return faults.length === 0
}
