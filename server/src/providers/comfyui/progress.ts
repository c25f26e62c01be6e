import { listenForMessages } from '../../infra/messages.ts'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import { asObject, type JsonObject, parseObject } from '../dialect/json.ts'

/** Jobs that nobody has looked at for so long are not listened to any more. */
const UNSEEN_MS = MINUTE_MS
/** A server runs one job at a time; more than a few are a mistake. */
const JOBS_MOST = 16

/** How far running jobs are, as their server tells whoever queued them. */
export interface ProgressWatch {
  /** From 0 to 99; null while nothing is known. From the first call on the server is listened to. */
  of(jobId: string, workflow: JsonObject): number | null
}

interface Watched {
  readonly nodes: Map<string, number>
  readonly workflow: JsonObject
  stop(): void
}

export interface ProgressOptions {
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly clock: Clock
}

/** Listens by the id of each job. Workflows are queued under that id, so any process can listen. */
export function watchProgress({ baseUrl, headers, clock }: ProgressOptions): ProgressWatch {
  const watched = new Map<string, Watched>()
  const timers = new Map<string, () => void>()

  const watch = (jobId: string, workflow: JsonObject): Watched => {
    const nodes = new Map<string, number>()
    const stop = listenForMessages({
      url: `${baseUrl}/ws?clientId=${encodeURIComponent(jobId)}`,
      headers,
      onText: (text) => takeMessage(text, jobId, nodes),
      // The next look at the job listens again.
      onClosed: () => forget(jobId),
    })
    return { nodes, workflow, stop }
  }
  const forget = (jobId: string) => {
    timers.get(jobId)?.()
    timers.delete(jobId)
    watched.get(jobId)?.stop()
    watched.delete(jobId)
  }
  return {
    of(jobId, workflow) {
      let job = watched.get(jobId)
      if (job === undefined) {
        if (watched.size >= JOBS_MOST) return null
        job = watch(jobId, workflow)
        watched.set(jobId, job)
      }
      timers.get(jobId)?.()
      timers.set(
        jobId,
        clock.after(UNSEEN_MS, () => forget(jobId)),
      )
      return progressFrom(job.workflow, job.nodes)
    },
  }
}

/** Notes of each node how much of it is done, from 0 to 1. */
export function takeMessage(text: string, jobId: string, nodes: Map<string, number>): void {
  const message = parseObject(text)
  const data = asObject(message?.['data'])
  if (data === null || data['prompt_id'] !== jobId) return
  if (message?.['type'] === 'progress') note(nodes, data['node'], data)
  else if (message?.['type'] === 'progress_state') {
    for (const [node, state] of Object.entries(asObject(data['nodes']) ?? {})) note(nodes, node, asObject(state))
  }
}

function note(nodes: Map<string, number>, node: unknown, state: JsonObject | null): void {
  const [value, most] = [Number(state?.['value']), Number(state?.['max'])]
  const done = state?.['state'] === 'finished' ? 1 : value / most
  if (typeof node === 'string' && done >= 0 && done <= 1) nodes.set(node, done)
}

/**
 * Returns how much of a workflow is done, in percent. A node counts as many times as it has steps, so that a sampler
 * counts for what it takes; nodes that are not of the workflow don't. Null where nothing is known.
 */
export function progressFrom(workflow: JsonObject, nodes: ReadonlyMap<string, number>): number | null {
  let [done, all] = [0, 0]
  for (const [node, content] of Object.entries(workflow)) {
    const steps = asObject(asObject(content)?.['inputs'])?.['steps']
    const weight = typeof steps === 'number' && steps >= 1 ? steps : 1
    all += weight
    done += weight * (nodes.get(node) ?? 0)
  }
  return nodes.size === 0 || all === 0 ? null : Math.min(Math.floor((done * 100) / all), 99)
}
