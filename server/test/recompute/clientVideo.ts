/** A client of videos that writes down what it was told: creates a job, perhaps cancels it, and waits for its end. */

import { createHash, randomUUID } from 'node:crypto'
import type { Received } from './client.ts'
import { secondsPresetOf, type VideoPlan } from './planVideo.ts'
import { messageOf } from './words.ts'

export interface ReceivedVideo
  extends Pick<
    Received,
    | 'call'
    | 'payer'
    | 'keyId'
    | 'model'
    | 'tier'
    | 'startedMs'
    | 'endedMs'
    | 'status'
    | 'chargeId'
    | 'end'
    | 'isEarly'
    | 'costMicrocents'
    | 'code'
  > {
  readonly kind: 'video'
  /** The seconds that were asked for, or are preset. */
  readonly asked: number
  /** As the job says at its end. */
  jobStatus: string | null
  seconds: number | null
  /** The job's status in the answer to its cancelling; null: nobody wanted that. */
  cancelStatus: string | null
  isCancelled: boolean
  /** Of the file that was fetched. */
  sha256: string | null
  /** It was sent twice with one key, and two jobs came of it. */
  isDoubled: boolean
}

interface Job {
  readonly id?: string
  readonly status?: string
  readonly seconds?: number
  readonly cost_cents?: number | null
  readonly error?: { readonly code: string } | string | null
}

const POLL_MS = 100
/** No job of a run takes so long. */
const PATIENCE_MS = 90_000
const OVER: ReadonlySet<string | undefined> = new Set(['completed', 'failed', 'cancelled', 'expired'])
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Makes one call. Never rejects. With `leavesEarly` it hangs up when the plan says so; its key is then its own. */
export async function makeVideoCall(
  url: string,
  key: { readonly id: string; readonly key: string },
  plan: VideoPlan,
  leavesEarly: boolean,
): Promise<ReceivedVideo> {
  const received: ReceivedVideo = {
    kind: 'video',
    call: plan.number,
    payer: plan.payer,
    keyId: key.id,
    model: `svc/v${plan.model}`,
    tier: 'serverless',
    startedMs: Date.now(),
    endedMs: 0,
    status: null,
    chargeId: null,
    end: 'broken',
    isEarly: leavesEarly,
    costMicrocents: null,
    code: null,
    asked: plan.seconds ?? secondsPresetOf(plan.model),
    jobStatus: null,
    seconds: null,
    cancelStatus: null,
    isCancelled: plan.cancelAfterMs !== null,
    sha256: null,
    isDoubled: false,
  }
  const leaving = new AbortController()
  if (leavesEarly) setTimeout(() => leaving.abort(), plan.leavesAfterMs ?? 0)
  const ask: Ask = (method, path, more = {}) =>
    fetch(`${url}/videos${path}`, { ...more, method, headers: { Authorization: `Bearer ${key.key}`, ...more.headers } })
  try {
    const id = await create(ask, plan, leavesEarly, leaving.signal, received)
    if (id !== null) await follow(ask, id, plan, received)
  } catch {
    received.end = leaving.signal.aborted && received.chargeId === null ? 'left' : 'broken'
  }
  received.endedMs = Date.now()
  return received
}

type Ask = (
  method: string,
  path: string,
  more?: { body?: string; headers?: Record<string, string>; signal?: AbortSignal },
) => Promise<Response>

/** The job's id; null where there is none. */
async function create(
  ask: Ask,
  plan: VideoPlan,
  leavesEarly: boolean,
  signal: AbortSignal,
  received: ReceivedVideo,
): Promise<string | null> {
  const { number, model, seconds, isSentTwice } = plan
  const body = JSON.stringify({
    model: `svc/v${model}`,
    prompt: messageOf(number),
    ...(seconds === null ? {} : { seconds }),
  })
  const keyed = isSentTwice && !leavesEarly ? { 'Idempotency-Key': randomUUID() } : {}
  const request = { body, headers: { 'Content-Type': 'application/json', ...keyed } }
  const send = async () => {
    const response = await ask('POST', '', { ...request, signal })
    return { status: response.status, job: (await response.json()) as Job }
  }
  const { status, job } = await send()
  received.status = status
  if (typeof job.error === 'object' && job.error !== null) {
    received.code = job.error.code
    received.end = 'error'
    return null
  }
  const id = job.id ?? ''
  received.chargeId = id.replaceAll('-', '')
  if (isSentTwice && !leavesEarly) received.isDoubled = (await send()).job.id !== id
  return id
}

async function follow(ask: Ask, id: string, { cancelAfterMs }: VideoPlan, received: ReceivedVideo): Promise<void> {
  const read = async () => (await (await ask('GET', `/${id}`)).json()) as Job
  if (cancelAfterMs !== null) {
    await pause(cancelAfterMs)
    received.cancelStatus = ((await (await ask('POST', `/${id}/cancel`)).json()) as Job).status ?? null
  }
  const untilMs = Date.now() + PATIENCE_MS
  let job = await read()
  while (!OVER.has(job.status) && Date.now() < untilMs) {
    await pause(POLL_MS)
    job = await read()
  }
  received.jobStatus = job.status ?? null
  received.seconds = job.seconds ?? null
  if (!OVER.has(job.status)) return
  if (job.status !== 'completed') {
    received.code = typeof job.error === 'string' ? job.error : null
    received.end = 'error'
    return
  }
  received.costMicrocents = String(BigInt(job.cost_cents ?? 0) * 1_000_000n)
  const content = await (await ask('GET', `/${id}/content`)).arrayBuffer()
  received.sha256 = createHash('sha256').update(Buffer.from(content)).digest('hex')
  received.end = 'whole'
}
