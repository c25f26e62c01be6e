import type { ComfyuiUpstreamSettings, RemoteUpstreamSettings, UpstreamSettings } from '../catalog/upstream.ts'
import type { Http } from '../io/http.ts'
import { findProgram } from '../io/program.ts'
import type { Log } from '../kernel/log.ts'
import type { Clock } from '../kernel/time.ts'
import { anthropicUpstream } from './anthropic/anthropic.ts'
import { comfyuiUpstream } from './comfyui/comfyui.ts'
import { geminiUpstream } from './gemini/gemini.ts'
import { type GgufEngine, startGguf } from './gguf/supervise.ts'
import { openaiUpstream } from './openai/openai.ts'
import { openaiVideo } from './openai/video.ts'
import { openaiWhole } from './openai/whole.ts'
import { createFilmWork, type FilmWork } from './sandbox/filmWork.ts'
import { sandboxUpstream } from './sandbox/sandbox.ts'
import { sdcppUpstream } from './sdcpp/sdcpp.ts'
import type { Upstream } from './spec.ts'
import type { VectorWork } from './vectors/work.ts'

export interface UpstreamClientsOptions {
  readonly http: Http
  readonly clock: Clock
  readonly log: Log
  readonly vectors: VectorWork
  /** Of this process; engines get the part of it that drivers need. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** The clients of the upstreams in the settings, each made once and kept while its settings stay the same. */
export interface UpstreamClients {
  /** The client for these settings; started when first asked for. */
  clientFor(settings: UpstreamSettings): Upstream
  /** Ends what runs for settings that are not among these any more. Calls under way on an engine break off. */
  keepOnly(settings: Iterable<UpstreamSettings>): Promise<void>
  close(): Promise<void>
}

interface Running {
  readonly upstream: Upstream
  readonly engine: GgufEngine | null
}

export function createUpstreamClients(options: UpstreamClientsOptions): UpstreamClients {
  const running = new Map<UpstreamSettings, Running>()
  const films = createFilmWork(options.log)
  const keepOnly = async (settings: Iterable<UpstreamSettings>) => {
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
      if (found) return found.upstream
      const made = start(settings, options, films)
      running.set(settings, made)
      return made.upstream
    },
    keepOnly,
    close: async () => {
      await Promise.all([keepOnly([]), films.close()])
    },
  }
}

function start(
  settings: UpstreamSettings,
  { http, clock, log, vectors, environment }: UpstreamClientsOptions,
  films: FilmWork,
): Running {
  if (settings.dialect === 'sandbox') {
    const { name, ...pace } = settings
    return { upstream: sandboxUpstream({ name, settings: pace, clock, films }), engine: null }
  }
  const means = { http, clock, vectors, ffmpeg: findProgram('ffmpeg', environment['PATH']) }
  if (settings.dialect !== 'gguf') return { upstream: remoteUpstream(settings, means), engine: null }
  const { name, file, sequences, contextTokens } = settings
  const engine = startGguf({ file, sequences, contextTokens, environment, clock, log })
  return { upstream: engineUpstream(name, engine, means), engine }
}

type Means = Pick<UpstreamClientsOptions, 'http' | 'clock' | 'vectors'> & { readonly ffmpeg: string | null }

function remoteUpstream(settings: RemoteUpstreamSettings | ComfyuiUpstreamSettings, means: Means): Upstream {
  const { name, dialect, baseUrl, headers } = settings
  const extraHeaders = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, value.reveal()]))
  const apiKey = settings.apiKey?.reveal() ?? null
  switch (dialect) {
    case 'openai': {
      const server = { name, address: () => baseUrl, bearer: () => apiKey, extraHeaders, ...means }
      return {
        ...openaiUpstream(server),
        ...openaiWhole(server),
        video: openaiVideo({ baseUrl, apiKey, extraHeaders, ...means }),
      }
    }
    case 'sdcpp':
      return sdcppUpstream({ name, baseUrl, apiKey, extraHeaders, ...means })
    case 'comfyui': {
      const workflows = 'workflows' in settings ? settings.workflows : {}
      return comfyuiUpstream({ name, baseUrl, apiKey, extraHeaders, workflows, ...means })
    }
    case 'anthropic':
      return anthropicUpstream({ name, baseUrl, apiKey, extraHeaders, ...means })
    case 'gemini':
      return geminiUpstream({ name, baseUrl, apiKey, extraHeaders, ...means })
  }
}

/** Speaks to whichever child runs now: a restarted one has another port and another token. */
function engineUpstream(name: string, engine: GgufEngine, means: Means): Upstream {
  const child = async () => {
    const { baseUrl, bearer } = await engine.address()
    return { name, address: () => baseUrl, bearer: () => bearer, ...means }
  }
  return {
    name,
    chat: async (call, signal, connectMs) => openaiUpstream(await child()).chat(call, signal, connectMs),
    embed: async (call, ...how) => openaiWhole(await child()).embed(call, ...how),
  }
}
