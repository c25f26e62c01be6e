/** The provider's jobs: taken, looked at, fetched and deleted, each as its plan says. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { planVideo, type VideoPlan } from './planVideo.ts'
import { numberOf } from './words.ts'

/**
 * A request about a job, and its outcome:
 * - `submit`: `taken`, `refused` (for now), `rejected`, or `lost`, where it may be taken
 * - `clip`: the file of that name was handed over `whole`, or `broken`
 * - `cancel`: it was `told` to end
 */
interface SentVideo {
  readonly call: number
  readonly target: string
  readonly video: 'submit' | 'clip' | 'cancel'
  readonly clip: string | null
  /** The client may want it no more: what was sent need not be charged. */
  readonly mayBeCancelled: boolean
  readonly end: 'taken' | 'refused' | 'rejected' | 'lost' | 'whole' | 'broken' | 'told'
}

interface Job {
  readonly plan: VideoPlan
  readonly target: string
  looks: number
  breaks: number
}

/** An answer; with `isCut` the connection ends after half of its body. Null: the connection ends without one. */
export type VideoReply = {
  readonly status: number
  readonly type: string
  readonly body: Buffer
  readonly isCut: boolean
} | null

const PROMPT = /name="prompt"\r\n\r\n([^\r]*)/
const MODEL = /name="model"\r\n\r\n([^\r]*)/
const CLIP_TYPE = 'video/mp4'

export class VideoJobs {
  readonly #seed: number
  readonly #folder: string
  readonly #write: (sent: SentVideo) => void
  readonly #jobs = new Map<string, Job>()
  readonly #clips = new Map<string, Buffer>()
  /** Calls that have been put off. */
  readonly #putOff = new Set<number>()
  /** No job is done. */
  isHeld = false

  constructor(seed: number, folder: string, write: (sent: SentVideo) => void) {
    this.#seed = seed
    this.#folder = folder
    this.#write = write
  }

  /** `path` is what follows `/v1/videos`. */
  async answer(method: string, path: string, body: string): Promise<VideoReply> {
    if (method === 'POST') return this.#take(body)
    const [, id = '', part] = path.split('/')
    const job = this.#jobs.get(id)
    if (job === undefined) return json(404, { error: { message: 'no such job' } })
    if (method === 'DELETE') {
      this.#note(job, 'cancel', 'told')
      return json(200, { id, deleted: true })
    }
    return part === 'content' ? this.#send(job) : this.#look(id, job)
  }

  #note({ plan, target }: Pick<Job, 'plan' | 'target'>, video: SentVideo['video'], end: SentVideo['end']): void {
    const mayBeCancelled = plan.cancelAfterMs !== null
    this.#write({ call: plan.number, target, video, clip: video === 'clip' ? plan.clip : null, mayBeCancelled, end })
  }

  #take(body: string): VideoReply {
    const plan = planVideo(this.#seed, numberOf(PROMPT.exec(body)?.[1] ?? ''))
    const job: Job = { plan, target: MODEL.exec(body)?.[1] ?? '', looks: 0, breaks: 0 }
    if (plan.trouble === 'busy' && !this.#putOff.has(plan.number)) {
      this.#putOff.add(plan.number)
      this.#note(job, 'submit', 'refused')
      return json(503, {})
    }
    if (plan.trouble === 'rejected') {
      this.#note(job, 'submit', 'rejected')
      return json(400, { error: { message: 'no' } })
    }
    const id = `job-${plan.number}-${this.#jobs.size}`
    this.#jobs.set(id, job)
    this.#note(job, 'submit', plan.trouble === 'lost' ? 'lost' : 'taken')
    return plan.trouble === 'lost' ? null : json(200, { id, object: 'video', status: 'queued' })
  }

  #look(id: string, job: Job): VideoReply {
    const { looks, trouble, toldSeconds } = job.plan
    const said = { id, object: 'video', seconds: String(toldSeconds) }
    job.looks += 1
    if (job.looks <= looks || this.isHeld)
      return json(200, { ...said, status: job.looks === 1 ? 'queued' : 'in_progress', progress: 50 })
    if (trouble === 'forgotten') return json(404, {})
    if (trouble === 'failed') return json(200, { ...said, status: 'failed', error: { code: 'out_of_memory' } })
    if (trouble === 'forbidden') return json(200, { ...said, status: 'failed', error: { code: 'moderation_blocked' } })
    return json(200, { ...said, status: 'completed', progress: 100 })
  }

  async #send(job: Job): Promise<VideoReply> {
    const { clip, fileAfterMs, breaks } = job.plan
    if (fileAfterMs > 0) await new Promise((resolve) => setTimeout(resolve, fileAfterMs))
    job.breaks += 1
    const isCut = job.breaks <= breaks
    this.#note(job, 'clip', isCut ? 'broken' : 'whole')
    return { status: 200, type: CLIP_TYPE, body: this.#clip(clip), isCut }
  }

  #clip(name: string): Buffer {
    const known = this.#clips.get(name) ?? readFileSync(join(this.#folder, `${name}.mp4`))
    this.#clips.set(name, known)
    return known
  }
}

function json(status: number, body: object): VideoReply {
  return { status, type: 'application/json', body: Buffer.from(JSON.stringify(body)), isCut: false }
}
