import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import { HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import type { Plan } from './plan.ts'
import { type PriceTable, priceHash } from './price.ts'
import type { Deadlines, ProviderSettings } from './provider.ts'

export const MODALITIES = ['chat', 'image', 'video', 'embedding'] as const
export type Modality = (typeof MODALITIES)[number]

export const MODEL_STATUSES = ['active', 'coming_soon', 'deprecated'] as const
export type ModelStatus = (typeof MODEL_STATUSES)[number]

export type TierName = 'serverless' | 'economy'

/** Appended to an id or alias it selects the economy tier (M3). No id or alias ends in it. */
export const ECONOMY_SUFFIX = ':economy'

const ALIAS_PATTERN = /^[\x21-\x7e]{1,128}$/

/** Returns whether `alias` may stand for a model (M1): 1 to 128 printable ASCII characters, no space, not an economy name. */
export function isAlias(alias: string): boolean {
  return ALIAS_PATTERN.test(alias) && !alias.endsWith(ECONOMY_SUFFIX)
}

/**
 * The parameters of the chat endpoint beside `model` and `messages`: the default of a chat model's
 * `supported_parameters`.
 */
export const CHAT_PARAMETERS = ['max_tokens', 'stream', 'stream_options', 'temperature'] as const

/** Where a call can be served: a provider's name in the settings and the model's name there. */
export interface Target {
  readonly provider: string
  readonly model: string
  /** Its share beside the others, 1 unless given; 1 to 1,000. */
  readonly weight?: number
  /** Asked only after all that are none. */
  readonly backup?: true
}

export const TARGET_CHOICES = ['in_order', 'weighted', 'least_busy'] as const
export type TargetChoice = (typeof TARGET_CHOICES)[number]

/** How the targets of a tier are asked. */
export interface TierRouting {
  readonly choice: TargetChoice
  /** How often all of them are gone through again, where none took the call; 0 to 5. */
  readonly retries: number
  /** After so long without a first token the next target is asked too, and the first to answer is taken; null: never. */
  readonly hedgeAfterMs: number | null
  /** How long a call waits for a target that is just being started; 0: not at all. */
  readonly coldStartMs: number
}

/** Where nothing is said: the economy tier may have to start its servers first. */
export const DEFAULT_ROUTING: Readonly<Record<TierName, TierRouting>> = {
  serverless: { choice: 'in_order', retries: 0, hedgeAfterMs: null, coldStartMs: 0 },
  economy: { choice: 'in_order', retries: 0, hedgeAfterMs: null, coldStartMs: MINUTE_MS },
}

/** One way to buy a model: its own price and its own targets, in the order they are tried. */
export interface Tier {
  readonly name: TierName
  readonly price: PriceTable
  /** `priceHash(price)`, 32 bytes: what a charge cites. */
  readonly priceHash: Uint8Array
  /** Empty only where the model is not active. */
  readonly targets: readonly Target[]
  readonly routing: TierRouting
}

/** Puts together one way to buy a model. */
export function tierOf(
  name: TierName,
  price: PriceTable,
  targets: readonly Target[],
  routing: TierRouting = DEFAULT_ROUTING[name],
): Tier {
  return { name, price, priceHash: priceHash(price), targets, routing }
}

/** A request parameter that a model takes, for models whose parameters differ from one to the next. */
export interface ParameterDescriptor {
  readonly name: string
  readonly type: 'enum' | 'int' | 'string' | 'bool'
  readonly default?: string | number | boolean
  readonly enum?: readonly string[]
  readonly min?: number
  readonly max?: number
}

/** How the jobs of a video model are run. */
export interface VideoRunning {
  /** Jobs that its providers work on at once, all gateway processes together; 1 to 1,000. */
  readonly concurrency: number
  /** So long a provider may work on one; then it is asked once more, and the job has failed (V7). */
  readonly deadlineMs: number
}

export const DEFAULT_VIDEO_RUNNING: VideoRunning = { concurrency: 4, deadlineMs: HOUR_MS }

/** Real text has at most about 12 bytes a token; the longest tokens of real tokenizers, long runs of blanks, have 128. */
export const DEFAULT_PROMPT_BYTES_PER_TOKEN = 64

export interface Model {
  /** Canonical, `<brand>/<slug>`: what answers and charges carry. */
  readonly id: string
  readonly modality: Modality
  readonly status: ModelStatus
  readonly aliases: readonly string[]
  readonly ownedBy: string
  readonly author: string | null
  /** Prompt and answer together, in tokens; 0 where it is not known, which only models not charged by tokens may leave out. */
  readonly contextTokens: number
  /** The most tokens one answer may have; at most `contextTokens`; 0 for models that put out no tokens. */
  readonly maxOutputTokens: number
  /** Output tokens at most that are spent on reasoning and never sent, so that holds cover them from the start. */
  readonly hiddenReasoningTokens: number
  /** A prompt with more UTF-8 bytes than this for each token of the context is refused before admission (C10). */
  readonly promptBytesPerToken: number
  /** Unix seconds, or null when not known. */
  readonly createdSeconds: number | null
  readonly fineTunable: boolean
  readonly fineTuneBaseModel: string | null
  readonly parameters: readonly ParameterDescriptor[]
  readonly planCovered: boolean
  readonly supportedParameters: readonly string[]
  /** Thousandths of a plan token that one token spends: 2000 where the settings say `usage_factor: 2`. */
  readonly usageFactorThousandths: number
  /** Of video models alone; left out: `DEFAULT_VIDEO_RUNNING`. */
  readonly video?: VideoRunning
  readonly serverless: Tier
  readonly economy: Tier | null
}

/** The values of a chat model's fields that its entry leaves out. */
export const CHAT_DEFAULTS = {
  modality: 'chat',
  status: 'active',
  hiddenReasoningTokens: 0,
  promptBytesPerToken: DEFAULT_PROMPT_BYTES_PER_TOKEN,
  createdSeconds: null,
  fineTunable: false,
  fineTuneBaseModel: null,
  parameters: [],
  planCovered: false,
  supportedParameters: CHAT_PARAMETERS,
  usageFactorThousandths: 1_000,
} as const satisfies Partial<Model>

/** A model and the tier that was asked for. */
export interface ResolvedModel {
  readonly model: Model
  readonly tier: Tier
}

/** The result of looking a name up; `no_tier`: the model is there and has no economy tier. */
type Found = ({ readonly kind: 'found' } & ResolvedModel) | { readonly kind: 'no_tier' } | { readonly kind: 'unknown' }

/**
 * The offer at one instant: models, prices, targets and plans. Immutable: a change of the settings makes another one.
 */
export interface Catalog {
  /** In the order of the settings file. */
  readonly models: readonly Model[]
  readonly providers: ReadonlyMap<string, ProviderSettings>
  readonly deadlines: Deadlines
  /** In the order of the settings file. */
  readonly plans: readonly Plan[]
  /** Finds a model, of any status, by its canonical id or an alias, with or without `:economy`. */
  find(name: string): Found
}

/** Makes a catalog. Names must have been checked for duplicates before: a duplicate here is a bug. */
export function createCatalog(
  models: readonly Model[],
  providers: readonly ProviderSettings[],
  deadlines: Deadlines,
  plans: readonly Plan[] = [],
): Catalog {
  const byName = new Map<string, Model>()
  for (const model of models) {
    for (const name of [model.id, ...model.aliases]) {
      if (byName.has(name)) throw new Error(`two models are called ${name}`)
      byName.set(name, model)
    }
  }
  const find = (name: string): Found => {
    const economy = name.endsWith(ECONOMY_SUFFIX)
    const model = byName.get(economy ? name.slice(0, -ECONOMY_SUFFIX.length) : name)
    if (model === undefined) return { kind: 'unknown' }
    const tier = economy ? model.economy : model.serverless
    return tier === null ? { kind: 'no_tier' } : { kind: 'found', model, tier }
  }
  return { models, providers: new Map(providers.map((provider) => [provider.name, provider])), deadlines, plans, find }
}

/** Which models and tiers a name stands for in lists of the past. */
export interface ListedName {
  /** The name, and all other names of the model that has it now. */
  readonly models: readonly string[]
  /** Null: every tier. */
  readonly tier: TierName | null
}

/**
 * Returns what a name stands for where past calls are listed by their model: an id or alias for both tiers, with `:economy` for that tier
 * alone. A name that no model has now stands for itself, so that models which are gone are found too.
 */
export function listedName({ find }: Pick<Catalog, 'find'>, name: string): ListedName {
  const isEconomy = name.endsWith(ECONOMY_SUFFIX)
  const bare = isEconomy ? name.slice(0, -ECONOMY_SUFFIX.length) : name
  const found = find(bare)
  const models = found.kind === 'found' ? [found.model.id, ...found.model.aliases] : [bare]
  return { models, tier: isEconomy ? 'economy' : null }
}

/** Every tier that is offered: their prices are what has to be stored before a catalog takes effect. */
export function tiersOf(catalog: Catalog): readonly Tier[] {
  return catalog.models.flatMap((model) =>
    model.economy === null ? [model.serverless] : [model.serverless, model.economy],
  )
}

const NAME_SHOWN_MAX_CHARACTERS = 128

/** Names a model in words for the client, cut to a bound: the name may be anything the client sent. */
export function quoteName(name: string): string {
  return name.length <= NAME_SHOWN_MAX_CHARACTERS ? `'${name}'` : `'${name.slice(0, NAME_SHOWN_MAX_CHARACTERS)}…'`
}

/** Looks a model up for reading. Refused with 404 `model_not_found` for an unknown name or a tier it does not have. */
export function lookUp(catalog: Catalog, name: string): Result<ResolvedModel> {
  const found = catalog.find(name)
  if (found.kind === 'found') return ok({ model: found.model, tier: found.tier })
  const message =
    found.kind === 'no_tier'
      ? `The model ${quoteName(name.slice(0, -ECONOMY_SUFFIX.length))} has no economy tier: leave out '${ECONOMY_SUFFIX}'.`
      : `The model ${quoteName(name)} does not exist: GET /v1/models lists those that do.`
  return refused(refusal('model_not_found', message, { param: 'model' }))
}

/**
 * Looks a model up for a call on the endpoint of `modality`. Refused like {@link lookUp}, and also where the model is of
 * another modality or its status is not `active` (M4).
 */
export function lookUpForCall(catalog: Catalog, name: string, modality: Modality): Result<ResolvedModel> {
  const result = lookUp(catalog, name)
  if (!result.ok) return result
  const { model } = result.value
  if (model.status !== 'active') {
    const message = `The model ${quoteName(name)} can't be called: its status is '${model.status}'.`
    return refused(refusal('model_not_found', message, { param: 'model' }))
  }
  if (model.modality !== modality) {
    const message = `The model ${quoteName(name)} can't be called at this endpoint: its modality is '${model.modality}', not '${modality}'.`
    return refused(refusal('model_not_found', message, { param: 'model' }))
  }
  return result
}
