import type { ComfyuiProviderSettings, ProviderSettings, RemoteProviderSettings } from '../catalog/provider.ts'
import type { Http } from '../infra/httpClient.ts'
import { findProgram } from '../infra/program.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { anthropicProvider } from './anthropic/anthropic.ts'
import { comfyuiProvider } from './comfyui/comfyui.ts'
import type { Provider } from './dialect/spec.ts'
import { geminiProvider } from './gemini/gemini.ts'
import { type GgufEngine, startGguf } from './gguf/supervise.ts'
import { openaiProvider } from './openai/openai.ts'
import { openaiVideo } from './openai/video.ts'
import { openaiWhole } from './openai/whole.ts'
import { type ClipWork, createClipWork } from './sandbox/clipWork.ts'
import { sandboxProvider } from './sandbox/sandbox.ts'
import { sdcppProvider } from './sdcpp/sdcpp.ts'
import type { VectorWork } from './vectors/work.ts'

export interface ProviderClientsOptions {
  readonly http: Http
  readonly clock: Clock
  readonly log: Log
  readonly vectors: VectorWork
  /** Of this process; engines get the part of it that drivers need. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** The clients of the providers in the settings, each made once and kept while its settings stay the same. */
export interface ProviderClients {
  /** The client for these settings; started when first asked for. */
  clientFor(settings: ProviderSettings): Provider
  /** Ends what runs for settings that are not among these any more. Calls under way on an engine break off. */
  keepOnly(settings: Iterable<ProviderSettings>): Promise<void>
  close(): Promise<void>
}

interface Running {
  readonly provider: Provider
  readonly engine: GgufEngine | null
}

export function createProviderClients(options: ProviderClientsOptions): ProviderClients {
  const running = new Map<ProviderSettings, Running>()
  const clips = createClipWork(options.log)
  const keepOnly = async (settings: Iterable<ProviderSettings>) => {
    const kept = new Set(settings)
    const ending: Promise<void>[] = []
    for (const [each, { engine }] of running) {
      if (kept.has(each)) continue
      running.delete(each)
      if (engine) ending.push(engine.close())
    }
    await Promise.all(ending)
  }
  return {
    clientFor(settings) {
      const found = running.get(settings)
      if (found) return found.provider
      const made = start(settings, options, clips)
      running.set(settings, made)
      return made.provider
    },
    keepOnly,
    close: async () => {
      await Promise.all([keepOnly([]), clips.close()])
    },
  }
}

function start(
  settings: ProviderSettings,
  { http, clock, log, vectors, environment }: ProviderClientsOptions,
  clips: ClipWork,
): Running {
  if (settings.dialect === 'sandbox') {
    const { name, ...pace } = settings
    return { provider: sandboxProvider({ name, settings: pace, clock, clips }), engine: null }
  }
  const means = { http, clock, vectors, ffmpeg: findProgram('ffmpeg', environment['PATH']) }
  if (settings.dialect !== 'gguf') return { provider: remoteProvider(settings, means), engine: null }
  const { name, file, sequences, contextTokens } = settings
  const engine = startGguf({ file, sequences, contextTokens, environment, clock, log })
  return { provider: engineProvider(name, engine, means), engine }
}

type Means = Pick<ProviderClientsOptions, 'http' | 'clock' | 'vectors'> & { readonly ffmpeg: string | null }

function remoteProvider(settings: RemoteProviderSettings | ComfyuiProviderSettings, means: Means): Provider {
  const { name, dialect, baseUrl, headers, continuousUsage = false, maxTokensField = 'max_tokens' } = settings
  const extraHeaders = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, value.reveal()]))
  const apiKey = settings.apiKey?.reveal() ?? null
  switch (dialect) {
    case 'openai': {
      const server = { name, address: () => baseUrl, bearer: () => apiKey, extraHeaders, ...means }
      return {
        ...openaiProvider({ ...server, continuousUsage, maxTokensField }),
        ...openaiWhole(server),
        video: openaiVideo({ baseUrl, apiKey, extraHeaders, ...means }),
      }
    }
    case 'sdcpp':
      return sdcppProvider({ name, baseUrl, apiKey, extraHeaders, ...means })
    case 'comfyui': {
      const workflows = 'workflows' in settings ? settings.workflows : {}
      return comfyuiProvider({ name, baseUrl, apiKey, extraHeaders, workflows, ...means })
    }
    case 'anthropic':
      return anthropicProvider({ name, baseUrl, apiKey, extraHeaders, ...means })
    case 'gemini':
      return geminiProvider({ name, baseUrl, apiKey, extraHeaders, ...means })
  }
}

/** Speaks to whichever child runs now: a restarted one has another port and another token. */
function engineProvider(name: string, engine: GgufEngine, means: Means): Provider {
  const child = async () => {
    const { baseUrl, bearer } = await engine.address()
    return { name, address: () => baseUrl, bearer: () => bearer, ...means }
  }
  return {
    name,
    chat: async (call, ...how) => openaiProvider(await child()).chat(call, ...how),
    embed: async (call, ...how) => openaiWhole(await child()).embed(call, ...how),
  }
}
