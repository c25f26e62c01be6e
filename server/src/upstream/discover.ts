import { open, readdir } from 'node:fs/promises'
import { type ClientRequest, get } from 'node:http'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import type { Discovered } from '../catalog/discovered.ts'
import type { Clock } from '../kernel/time.ts'

/** Model lists have some hundred bytes a model. */
const LIST_MAX_BYTES = 1024 * 1024
/** A bound on what a stranger on a loopback port, or a full folder, can make us list. */
const MODELS_MAX = 200

/** A place where a local model server usually listens. */
export interface Endpoint {
  readonly port: number
  /** Its own list, beside OpenAI's, that tells which models only embed; null where there is none. */
  readonly details: '/api/tags' | '/api/v0/models' | null
}

const USUAL_ENDPOINTS: readonly Endpoint[] = [
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
  readonly endpoints?: readonly Endpoint[]
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

async function probe({ port, details }: Endpoint, signal: AbortSignal): Promise<Discovered | null> {
  const origin = `http://127.0.0.1:${port}`
  const [list, more] = await Promise.all([
    getJson(`${origin}/v1/models`, signal),
    details === null ? null : getJson(`${origin}${details}`, signal),
  ])
  const parsed = modelsSchema.safeParse(list)
  if (!parsed.success) return null
  const embedders = embeddingModels(more)
  const models = parsed.data.data.map(({ id }) => id).filter((id) => !embedders.has(id) && !/embed/i.test(id))
  if (models.length === 0) return null
  const product = productOf(parsed.data.data[0]?.owned_by ?? '', more)
  return { kind: 'http', product, baseUrl: `${origin}/v1`, models: [...new Set(models)].slice(0, MODELS_MAX) }
}

function productOf(owner: string, details: unknown): string {
  if (ollamaTagsSchema.safeParse(details).success) return 'Ollama'
  if (lmStudioSchema.safeParse(details).success) return 'LM Studio'
  return PRODUCT_BY_OWNER.get(owner) ?? 'OpenAI-compatible server'
}

const ollamaTagsSchema = z.object({
  models: z.array(z.object({ name: z.string(), details: z.object({ family: z.string().nullish() }).nullish() })),
})
const lmStudioSchema = z.object({ data: z.array(z.object({ id: z.string(), type: z.string() })) })

/** The models of Ollama's or LM Studio's own list that make embeddings and nothing else. */
function embeddingModels(details: unknown): ReadonlySet<string> {
  const ollama = ollamaTagsSchema.safeParse(details)
  if (ollama.success) {
    const embedders = ollama.data.models.filter((model) => /bert/i.test(model.details?.family ?? ''))
    return new Set(embedders.map(({ name }) => name))
  }
  const lmStudio = lmStudioSchema.safeParse(details)
  if (!lmStudio.success) return new Set()
  return new Set(lmStudio.data.data.filter(({ type }) => type === 'embeddings').map(({ id }) => id))
}

/** Null for everything but a JSON answer with status 200. `node:http` because `fetch` would ask a proxy of the environment. */
function getJson(url: string, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    const request: ClientRequest = get(url, { agent: false, signal, headers: { accept: 'application/json' } })
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
