import { open, readdir } from 'node:fs/promises'
import { request as ask, type ClientRequest } from 'node:http'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import type { Discovered } from '../catalog/discovered.ts'
import type { Clock } from '../lib/time.ts'

/** Model lists have some hundred bytes a model. */
const LIST_MAX_BYTES = 1024 * 1024
/** A bound on what a stranger on a loopback port, or a full folder, can make us list. */
const MODELS_MAX = 200

/** Models of one server that are asked what they can do, one by one. */
const ASKED_MAX = 32

/** A place where a local model server usually listens. */
export interface LocalServer {
  readonly port: number
  /** Its own list, beside OpenAI's, that tells what models are for; null where there is none. */
  readonly details: '/api/tags' | '/api/v0/models' | null
}

const USUAL_ENDPOINTS: readonly LocalServer[] = [
  { port: 11434, details: '/api/tags' }, // Ollama
  { port: 8080, details: null }, // llama.cpp server
  { port: 8000, details: null }, // vLLM
  { port: 1234, details: '/api/v0/models' }, // LM Studio
]

/** How servers name the owner of the models that they list. */
const PRODUCT_BY_OWNER: ReadonlyMap<string, string> = new Map([
  ['library', 'Ollama'],
  ['llamacpp', 'llama.cpp server'],
  ['vllm', 'vLLM'],
  ['sglang', 'SGLang'],
  ['organization_owner', 'LM Studio'],
])

export interface DiscoverOptions {
  readonly clock: Clock
  /** Ports that are our own. */
  readonly skipPorts: readonly number[]
  readonly modelsFolder: string
  /** For all of it; a server that has not answered by then is not there. */
  readonly timeoutMs: number
  readonly endpoints?: readonly LocalServer[]
}

/** Looks for model servers on loopback ports and for `*.gguf` in a folder. Never rejects: what can't be read is not there. */
export async function discover(options: DiscoverOptions): Promise<Discovered[]> {
  const deadline = new AbortController()
  const cancel = options.clock.after(options.timeoutMs, () => deadline.abort())
  const endpoints = (options.endpoints ?? USUAL_ENDPOINTS).filter(({ port }) => !options.skipPorts.includes(port))
  const [files, ...servers] = await Promise.all([
    ggufFiles(options.modelsFolder),
    ...endpoints.map((endpoint) => probe(endpoint, deadline.signal)),
  ])
  cancel()
  return [...servers.filter((server) => server !== null), ...files]
}

const modelsSchema = z.object({
  object: z.literal('list'),
  data: z.array(z.object({ id: z.string().min(1).max(200), owned_by: z.string().nullish() })),
})

async function probe({ port, details }: LocalServer, signal: AbortSignal): Promise<Discovered | null> {
  const origin = `http://127.0.0.1:${port}`
  const [list, more] = await Promise.all([
    getJson(`${origin}/v1/models`, signal),
    details === null ? null : getJson(`${origin}${details}`, signal),
  ])
  const parsed = modelsSchema.safeParse(list)
  if (!parsed.success) return null
  const ids = [...new Set(parsed.data.data.map(({ id }) => id))].slice(0, MODELS_MAX)
  const { chat, embedding } = sort(ids, await purposesOf(origin, ids, more, signal))
  if (chat.length + embedding.length === 0) return null
  const product = productOf(parsed.data.data[0]?.owned_by ?? '', more)
  return { kind: 'http', product, baseUrl: `${origin}/v1`, models: chat, embeddingModels: embedding }
}

/** The use of a model, where its server says it; `other`: one that is not served here. */
type Purpose = 'chat' | 'embedding' | 'other'

/**
 * Sorts models by use. One that the server says nothing about is for chat, unless its name says that it embeds: then
 * the way to ask it is not known, and it is left out.
 */
function sort(ids: readonly string[], purposes: ReadonlyMap<string, Purpose>) {
  const isFor = (purpose: Purpose) => (id: string) => (purposes.get(id) ?? guess(id)) === purpose
  return { chat: ids.filter(isFor('chat')), embedding: ids.filter(isFor('embedding')) }
}

const guess = (id: string): Purpose => (/embed/i.test(id) ? 'other' : 'chat')

function productOf(owner: string, details: unknown): string {
  if (ollamaTagsSchema.safeParse(details).success) return 'Ollama'
  if (lmStudioSchema.safeParse(details).success) return 'LM Studio'
  return PRODUCT_BY_OWNER.get(owner) ?? 'OpenAI-compatible server'
}

const ollamaTagsSchema = z.object({
  models: z.array(z.object({ name: z.string(), details: z.object({ family: z.string().nullish() }).nullish() })),
})
const lmStudioSchema = z.object({ data: z.array(z.object({ id: z.string(), type: z.string() })) })

const ollamaShowSchema = z.object({ capabilities: z.array(z.string()) })

const LM_STUDIO_PURPOSES: ReadonlyMap<string, Purpose> = new Map([
  ['llm', 'chat'],
  ['vlm', 'chat'],
  ['embeddings', 'embedding'],
])

/** By LM Studio's own list, or by what Ollama says of each model. */
async function purposesOf(
  origin: string,
  ids: readonly string[],
  details: unknown,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Purpose>> {
  const lmStudio = lmStudioSchema.safeParse(details)
  if (lmStudio.success) {
    return new Map(lmStudio.data.data.map(({ id, type }) => [id, LM_STUDIO_PURPOSES.get(type) ?? 'other']))
  }
  const ollama = ollamaTagsSchema.safeParse(details)
  if (!ollama.success) return new Map()
  // Older ones say nothing of capabilities; what is a BERT does not chat.
  const families = new Map(ollama.data.models.map((model) => [model.name, model.details?.family ?? '']))
  const asking = ids.slice(0, ASKED_MAX).map(async (id): Promise<[string, Purpose][]> => {
    const shown = ollamaShowSchema.safeParse(await getJson(`${origin}/api/show`, signal, { model: id }))
    if (shown.success) return [[id, purposeOf(shown.data.capabilities)]]
    return /bert/i.test(families.get(id) ?? '') ? [[id, 'other']] : []
  })
  return new Map((await Promise.all(asking)).flat())
}

function purposeOf(capabilities: readonly string[]): Purpose {
  if (capabilities.includes('completion')) return 'chat'
  return capabilities.includes('embedding') ? 'embedding' : 'other'
}

/**
 * Null for everything but a JSON answer with status 200; with `body`, to a POST of it. `node:http` because `fetch` would ask a
 * proxy of the environment.
 */
function getJson(url: string, signal: AbortSignal, body?: object): Promise<unknown> {
  return new Promise((resolve) => {
    const headers = { accept: 'application/json', ...(body && { 'content-type': 'application/json' }) }
    const method = body === undefined ? 'GET' : 'POST'
    const request: ClientRequest = ask(url, { method, agent: false, signal, headers })
    request.end(body && JSON.stringify(body))
    request.on('error', () => resolve(null))
    request.on('response', (response) => {
      const parts: Buffer[] = []
      let length = 0
      const giveUp = () => {
        request.destroy()
        resolve(null)
      }
      if (response.statusCode !== 200) giveUp()
      response.on('error', giveUp)
      response.on('close', giveUp)
      response.on('data', (part: Buffer) => {
        length += part.length
        if (length > LIST_MAX_BYTES) giveUp()
        else parts.push(part)
      })
      response.on('end', () => resolve(parse(Buffer.concat(parts))))
    })
  })
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}

/** Parts of a split model other than its first, and projectors for images, are not models of their own. */
const NO_MODEL = /^\.|^mmproj|-(?!00001-of-)\d{5}-of-\d{5}\.gguf$/i

async function ggufFiles(folder: string): Promise<Discovered[]> {
  const entries = await readdir(folder).catch(() => [])
  const names = entries.filter((name) => /.\.gguf$/i.test(name) && !NO_MODEL.test(name)).sort()
  const found: Discovered[] = []
  for (const name of names.slice(0, MODELS_MAX)) {
    const file = resolve(join(folder, name))
    if (await isGguf(file)) found.push({ kind: 'gguf', file, name: name.replace(/\.gguf$/i, '') })
  }
  return found
}

async function isGguf(file: string): Promise<boolean> {
  const handle = await open(file, 'r').catch(() => null)
  if (handle === null) return false
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
    return bytesRead === 4 && buffer.toString('latin1') === 'GGUF'
  } catch {
    return false
  } finally {
    await handle.close()
  }
}
