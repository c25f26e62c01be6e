/** Reads the answers of ComfyUI: its history, its queue, and the files of a job. Pure. */

import { asObject, asText, type JsonObject } from '../dialect/json.ts'
import type { VideoState } from '../dialect/spec.ts'

/** A file of a job, as `/view` is asked for it. */
export interface SavedFile {
  readonly filename: string
  readonly subfolder: string
  readonly type: string
}

/** The entry of a job that is over; null where the history has none. */
export function historyEntry(document: JsonObject | null, jobId: string): JsonObject | null {
  return document !== null && Object.hasOwn(document, jobId) ? asObject(document[jobId]) : null
}

/** Returns the end of a job that the history has: done when it saved an mp4, failed otherwise. */
export function endFromWire(entry: JsonObject): VideoState {
  const word = asObject(entry['status'])?.['status_str']
  if (word === 'error') return { kind: 'failed', code: 'upstream_error', detail: reasonOf(entry) }
  if (savedFile(entry) !== null) return { kind: 'done' }
  return { kind: 'failed', code: 'upstream_error', detail: 'the workflow has saved no mp4' }
}

/** Which node failed, and the kind of its error; its message may quote the prompt. */
function reasonOf(entry: JsonObject): string {
  const messages = asObject(entry['status'])?.['messages']
  for (const message of Array.isArray(messages) ? messages : []) {
    const [event, data] = Array.isArray(message) ? message : []
    if (event === 'execution_interrupted') return 'the job was interrupted'
    if (event !== 'execution_error') continue
    const words = [asObject(data)?.['node_type'], asObject(data)?.['exception_type']]
    return `the job failed: ${words.map((word) => (/^[\w.]{1,80}$/.test(String(word)) ? word : 'unknown')).join(', ')}`
  }
  return 'the job failed'
}

/** The mp4 that a job has saved: one that stays before one that does not. Nodes name their files under words of their own. */
export function savedFile(entry: JsonObject): SavedFile | null {
  const files: SavedFile[] = []
  for (const output of Object.values(asObject(entry['outputs']) ?? {})) {
    for (const list of Object.values(asObject(output) ?? {})) {
      for (const item of Array.isArray(list) ? list : []) {
        const filename = asText(asObject(item)?.['filename'])
        if (filename === null || !/\.mp4$/i.test(filename)) continue
        const subfolder = asText(asObject(item)?.['subfolder']) ?? ''
        files.push({ filename, subfolder, type: asText(asObject(item)?.['type']) ?? 'output' })
      }
    }
  }
  return files.find(({ type }) => type === 'output') ?? files[0] ?? null
}

/** Where a job is in the queue, with what is run for it. */
export interface QueuePlace {
  readonly kind: 'running' | 'pending'
  readonly workflow: JsonObject
}

/** The place of a job; null where it is not in the queue. */
export function queuePlace(document: JsonObject | null, jobId: string): QueuePlace | null {
  for (const kind of ['running', 'pending'] as const) {
    const list = document?.[`queue_${kind}`]
    for (const item of Array.isArray(list) ? list : []) {
      if (Array.isArray(item) && item[1] === jobId) return { kind, workflow: asObject(item[2]) ?? {} }
    }
  }
  return null
}
