import type { Workflow } from '../../catalog/workflow.ts'
import { askJob, fetchFile, type JobRequest, jobIdFrom } from '../dialect/jobs.ts'
import type { JsonObject } from '../dialect/json.ts'
import type { NamedServer } from '../dialect/remote.ts'
import { type Provider, ProviderFailure, type VideoWork } from '../dialect/spec.ts'
import { wholeHeaders } from '../dialect/whole.ts'
import { failureOfStatus } from '../openai/failure.ts'
import { fillWorkflow } from './fill.ts'
import { watchProgress } from './progress.ts'
import { endFromWire, historyEntry, queuePlace, savedFile } from './wire.ts'

export interface ComfyuiProviderOptions extends NamedServer {
  /** By the names that targets have. */
  readonly workflows: Readonly<Record<string, Workflow>>
}

/** The queue and the history tell each job with its whole workflow: a full queue of large ones has as many bytes. */
const QUEUE_MOST_BYTES = 64 << 20

/** ComfyUI, at a base URL such as `http://127.0.0.1:8188`: a workflow for each model, one job after the other. */
export function comfyuiProvider(options: ComfyuiProviderOptions): Provider {
  return {
    name: options.name,
    // The settings give it no chat models.
    chat: () => Promise.reject(new ProviderFailure('misconfigured', 'this server makes videos only')),
    video: comfyuiVideo(options),
  }
}

function comfyuiVideo({ baseUrl, apiKey, extraHeaders, workflows, http, clock }: ComfyuiProviderOptions): VideoWork {
  const headers = wholeHeaders(extraHeaders, apiKey)
  type Ask = readonly [signal: AbortSignal, connectMs: number]
  const at = (path: string, [signal, connectMs]: Ask): JobRequest => {
    return { url: `${baseUrl}${path}`, headers, signal, connectMs, failureOfStatus: failureOfJob }
  }
  const get = async (path: string, ask: Ask): Promise<JsonObject | null> =>
    (await askJob(http, clock, 'GET', { ...at(path, ask), maxBytes: QUEUE_MOST_BYTES })).document
  const post = async (path: string, body: object, ask: Ask): Promise<JsonObject | null> =>
    (await askJob(http, clock, 'POST', { ...at(path, ask), body: JSON.stringify(body) })).document

  const pastOf = async (jobId: string, ask: Ask) =>
    historyEntry(await get(`/history/${encodeURIComponent(jobId)}`, ask), jobId)
  const placeOf = async (jobId: string, ask: Ask) => queuePlace(await get('/queue', ask), jobId)
  const progress = watchProgress({ baseUrl, headers: headers, clock })

  return {
    async submit(call, ...ask) {
      const workflow = Object.hasOwn(workflows, call.model) ? workflows[call.model] : undefined
      if (workflow === undefined) throw new ProviderFailure('misconfigured', 'there is no workflow of this name')
      const body = { prompt: fillWorkflow(workflow, call), prompt_id: call.attemptId, client_id: call.attemptId }
      const document = await post('/prompt', body, ask)
      // Versions before 2025 give ids of their own.
      return jobIdFrom(document?.['prompt_id'])
    },
    async find(attemptId, ...ask) {
      if ((await placeOf(attemptId, ask)) !== null) return attemptId
      // Looked at after the queue: what left that meanwhile is here.
      return (await pastOf(attemptId, ask)) === null ? null : attemptId
    },
    async look(jobId, ...ask) {
      const place = await placeOf(jobId, ask)
      if (place?.kind === 'pending') return { kind: 'waiting' }
      if (place?.kind === 'running') return { kind: 'working', progress: progress.of(jobId, place.workflow) }
      const entry = await pastOf(jobId, ask)
      return entry === null ? { kind: 'unknown' } : endFromWire(entry)
    },
    async download(jobId, ...ask) {
      const entry = await pastOf(jobId, ask)
      const file = entry && savedFile(entry)
      if (file === null) throw new ProviderFailure('faulty', 'the job has no mp4')
      return fetchFile(http, clock, {
        ...at(`/view?${new URLSearchParams({ ...file })}`, ask),
        headers: { ...headers, accept: '*/*' },
      })
    },
    async cancel(jobId, ...ask) {
      await post('/queue', { delete: [jobId] }, ask)
      // Versions that don't know the id stop whatever runs: it is asked for only while that is this job.
      if ((await placeOf(jobId, ask))?.kind === 'running') await post('/interrupt', { prompt_id: jobId }, ask)
    },
  }
}

/** Returns the failure of a refused job: ComfyUI refuses the operator's workflow, never the words of a client. */
function failureOfJob(status: number, body: string, retryAfterSeconds: number | null): ProviderFailure {
  const failure = failureOfStatus(status, body, retryAfterSeconds)
  if (failure.kind !== 'rejected' && failure.kind !== 'context_length') return failure
  return new ProviderFailure('misconfigured', `status ${status}: the workflow is refused; try it in ComfyUI`)
}
