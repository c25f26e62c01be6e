import { faulty } from '../dialect/failure.ts'
import { askJob, fetchFile, type JobRequest, jobIdFrom } from '../dialect/jobs.ts'
import { asObject, type JsonObject } from '../dialect/json.ts'
import type { ModelServer } from '../dialect/remote.ts'
import { ProviderFailure, type VideoCall, type VideoState, type VideoWork } from '../dialect/spec.ts'
import { wholeHeaders } from '../dialect/whole.ts'
import { failureOfStatus } from './failure.ts'

/** No such job, or not any more. */
const GONE = [404, 410] as const
/** Of a DELETE: there is nothing that could be ended, or no way to end it. */
const NOT_ENDED = [...GONE, 400, 405, 409, 422, 501] as const

/**
 * Videos of servers of OpenAI's form: vLLM-Omni, SGLang. Their ids are theirs alone and they remember nothing of ours, so a job
 * whose answer was lost can't be found again.
 */
export function openaiVideo({ baseUrl, apiKey, extraHeaders, http, clock }: ModelServer): VideoWork {
  const headers = wholeHeaders(extraHeaders, apiKey)
  const fileHeaders = { ...headers, accept: 'video/mp4, application/octet-stream;q=0.9, */*;q=0.1' }
  const at = (path: string, signal: AbortSignal, connectMs: number): JobRequest => {
    return { url: `${baseUrl}/videos${path}`, headers, signal, connectMs, failureOfStatus }
  }
  return {
    async submit(call, signal, connectMs) {
      const { body, contentType } = formOf(call)
      const request = { ...at('', signal, connectMs), headers: { ...headers, 'content-type': contentType }, body }
      const { document } = await askJob(http, clock, 'POST', request)
      return jobIdFrom(document?.['id'])
    },
    async look(jobId, signal, connectMs) {
      const path = `/${encodeURIComponent(jobId)}`
      const { document } = await askJob(http, clock, 'GET', at(path, signal, connectMs), GONE)
      if (document === null) return { kind: 'unknown' }
      // A proxy may have mixed up two answers: this state is another customer's, and so would be the file.
      if ((document['id'] ?? jobId) !== jobId) throw faulty('the answer is of another job')
      return stateFromWire(document)
    },
    download(jobId, signal, connectMs) {
      const request = at(`/${encodeURIComponent(jobId)}/content`, signal, connectMs)
      return fetchFile(http, clock, { ...request, headers: fileHeaders })
    },
    async cancel(jobId, signal, connectMs) {
      const path = `/${encodeURIComponent(jobId)}`
      await askJob(http, clock, 'DELETE', at(path, signal, connectMs), NOT_ENDED)
    },
  }
}

/**
 * Returns the body of `POST …/videos`, as a form: the one way that all of these servers take. Parameters that are
 * null are left out. The attempt's id separates the fields; a prompt that holds it can't come from a client, who is
 * not told it.
 */
export function formOf({ model, prompt, seconds, size, attemptId }: VideoCall): { body: string; contentType: string } {
  const boundary = `tollgate-${attemptId}`
  if (prompt.includes(boundary)) throw new ProviderFailure('rejected', 'the prompt holds the boundary')
  const fields: [string, string | null][] = [
    ['model', model],
    ['prompt', prompt],
    ['seconds', String(seconds)],
    ['size', size === null ? null : `${size.width}x${size.height}`],
  ]
  const parts = fields.map(([name, value]) =>
    value === null ? '' : `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  return { body: `${parts.join('')}--${boundary}--\r\n`, contentType: `multipart/form-data; boundary=${boundary}` }
}

/** Words of servers for one of four states; SGLang says `queued` until it is done. */
const STATES: Readonly<Record<string, 'waiting' | 'working' | 'done' | 'failed' | 'unknown'>> = {
  queued: 'waiting',
  pending: 'waiting',
  in_progress: 'working',
  processing: 'working',
  running: 'working',
  completed: 'done',
  succeeded: 'done',
  failed: 'failed',
  cancelled: 'failed',
  canceled: 'failed',
  expired: 'unknown',
  deleted: 'unknown',
}

const REFUSED_CONTENT = /moderation|content_?(policy|filter)|safety|sensitive/i

/** Returns the state in a job's document. Throws `faulty` where the document has none. */
export function stateFromWire(document: JsonObject): VideoState {
  const status = document['status']
  const kind = typeof status === 'string' && Object.hasOwn(STATES, status) ? STATES[status] : undefined
  if (kind === undefined) throw faulty("the job's status is not known")
  if (kind === 'working') return { kind, progress: progressFrom(document['progress']) }
  if (kind !== 'failed') return { kind }
  const error = asObject(document['error'])
  const word = String(error?.['code'] ?? error?.['type'] ?? '')
  const code = REFUSED_CONTENT.test(word) ? 'content_policy' : 'upstream_error'
  // Its message may quote the prompt.
  return { kind, code, detail: /^[A-Za-z0-9_.-]{1,48}$/.test(word) ? `the provider says ${word}` : 'the job failed' }
}

/** From 0 to 100; null for what is no such number. */
function progressFrom(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= 100 ? value : null
}
