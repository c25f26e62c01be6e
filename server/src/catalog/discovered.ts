import { BRAND } from '../lib/brand.ts'
import { CHAT_DEFAULTS, isAlias, type Model, tierOf } from './model.ts'
import type { PriceTable } from './price.ts'
import { GGUF_DEFAULTS, type ProviderSettings } from './provider.ts'
import type { Offer } from './settings.ts'

/** Holds are computed from it where discovery can't tell a model's own; small, so that a local model is not overcommitted. */
const DISCOVERED_CONTEXT_TOKENS = 8_192

/** A model server or a GGUF file that `providers/discover.ts` found at start. */
export type Discovered =
  | {
      readonly kind: 'http'
      /** Such as `Ollama`. */
      readonly product: string
      readonly baseUrl: string
      /** Names there, of those that chat and of those that make embeddings. */
      readonly models: readonly string[]
      readonly embeddingModels: readonly string[]
    }
  | {
      readonly kind: 'gguf'
      /** Absolute path. */
      readonly file: string
      /** The file's name without `.gguf`. */
      readonly name: string
    }

const SLUG_MAX_CHARACTERS = 100

/** A provider's name for a model as our id (M1): `llama3.2:1b` becomes `svc/llama3.2-1b`. Null where nothing is left. */
export function discoveredId(name: string): string | null {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, SLUG_MAX_CHARACTERS)
    .replace(/[-._]+$/, '')
  return slug === '' ? null : `${BRAND}/${slug}`
}

interface DiscoveryContext {
  readonly price: PriceTable
  readonly ownedBy: string
  /** Ids and aliases in use: those who were there first keep them. Grows. */
  readonly taken: Set<string>
}

function freeId(wanted: string, taken: ReadonlySet<string>): string {
  if (!taken.has(wanted)) return wanted
  let number = 2
  while (taken.has(`${wanted}-${number}`)) number += 1
  return `${wanted}-${number}`
}

/** Embeddings put no tokens out. */
function inputOnly(price: PriceTable): PriceTable {
  if (price.kind === 'tokens') return { ...price, outputMicrocents: 0n }
  if (price.kind !== 'tokens_by_time') return price
  const { peak, offPeak } = price
  return { ...price, peak: { ...peak, outputMicrocents: 0n }, offPeak: { ...offPeak, outputMicrocents: 0n } }
}

function discoveredModel(
  name: string,
  modality: 'chat' | 'embedding',
  author: string,
  provider: ProviderSettings,
  context: DiscoveryContext,
): Model | null {
  const wanted = discoveredId(name)
  if (wanted === null) return null
  const id = freeId(wanted, context.taken)
  context.taken.add(id)
  const aliases = isAlias(name) && !context.taken.has(name) ? [name] : []
  for (const alias of aliases) context.taken.add(alias)
  const contextTokens = provider.dialect === 'gguf' ? provider.contextTokens : DISCOVERED_CONTEXT_TOKENS
  const isChat = modality === 'chat'
  const price = isChat ? context.price : inputOnly(context.price)
  return {
    ...CHAT_DEFAULTS,
    ...(isChat ? {} : { modality, supportedParameters: [] }),
    id,
    aliases,
    ownedBy: context.ownedBy,
    author,
    contextTokens,
    maxOutputTokens: isChat ? contextTokens : 0,
    serverless: tierOf('serverless', price, [{ provider: provider.name, model: name }]),
    economy: null,
  }
}

/** How many discovered models are served at most: a bound on what a stranger on a loopback port can make us list. */
const DISCOVERED_MODELS_MAX = 200

/** Returns the models that were found at start, at `price`. None gets a name of `taken`. */
export function discoveredOffer(
  found: readonly Discovered[],
  price: PriceTable,
  ownedBy: string,
  taken: Iterable<string>,
): Offer {
  const context: DiscoveryContext = { price, ownedBy, taken: new Set(taken) }
  const models: Model[] = []
  const providers: ProviderSettings[] = []
  for (const [index, each] of found.entries()) {
    const name = `discovered-${index + 1}-${(each.kind === 'gguf' ? each.name : each.product).toLowerCase()}`
    const provider: ProviderSettings =
      each.kind === 'gguf'
        ? { name, dialect: 'gguf', file: each.file, ...GGUF_DEFAULTS }
        : { name, dialect: 'openai', baseUrl: each.baseUrl, apiKey: null, headers: {} }
    providers.push(provider)
    const author = each.kind === 'gguf' ? 'Found as a GGUF file' : `Found on a local ${each.product}`
    const add = (modelName: string, modality: 'chat' | 'embedding') => {
      if (models.length >= DISCOVERED_MODELS_MAX) return
      const model = discoveredModel(modelName, modality, author, provider, context)
      if (model !== null) models.push(model)
    }
    for (const modelName of each.kind === 'gguf' ? [each.name] : each.models) add(modelName, 'chat')
    for (const modelName of each.kind === 'gguf' ? [] : each.embeddingModels) add(modelName, 'embedding')
  }
  return { models, providers }
}
