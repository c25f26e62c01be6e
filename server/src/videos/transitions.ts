/** The transitions of a job, each in one transaction with all that goes with it. Null: another process has the job. */

import { release } from '../billing/admission/holds/hold.ts'
import { priceVideo } from '../billing/charges/pricing.ts'
import { NO_TOKENS } from '../billing/charges/settle.ts'
import { prepareSettling, settleVideo } from '../billing/charges/settleVideo.ts'
import { boundUsage, usageBound } from '../billing/charges/usageBound.ts'
import { uuidV5 } from '../lib/ids.ts'
import type { VideoDependencies, VideoMetrics } from './job/dependencies.ts'
import {
  artifactName,
  LAPSE_MS,
  LEFT_MS,
  type Submission,
  VIDEO_KEPT_MS,
  type Video,
  type VideoError,
} from './job/video.ts'
import { videoToWire } from './job/wire.ts'
import { moveVideo } from './store.ts'

type Means = Pick<VideoDependencies, 'database' | 'clock' | 'publish' | 'reached' | 'metrics'>

/** Counts a job that is over, and that nobody else has ended. */
function countEnd(
  { metrics, clock }: Means,
  { model, createdAtMs }: Video,
  outcome: Parameters<VideoMetrics['videoEnded']>[1],
): void {
  metrics?.videoEnded(model, outcome, clock.now() - createdAtMs)
}

/** The provider has taken it, as `providerJob`. */
export function accept({ database, clock }: Means, video: Video, providerJob: string, dueAtMs: number) {
  const startedAtMs = clock.now()
  return database.transaction((tx) => moveVideo(tx, 'accept', video, { providerJob, startedAtMs, dueAtMs }))
}

/** Another provider is about to be asked. */
export function retarget({ database }: Means, video: Video, submission: Submission, dueAtMs: number) {
  return database.transaction((tx) => moveVideo(tx, 'retarget', video, { submission, dueAtMs }))
}

/** It waits for another turn. */
export function putBack({ database }: Means, video: Video): Promise<Video | null> {
  const dueAtMs = video.createdAtMs + LAPSE_MS
  return database.transaction((tx) => moveVideo(tx, 'putBack', video, { submission: null, dueAtMs }))
}

/** It failed, and costs nothing. `isAtWork`: the provider may be at it still, and is to be told. */
export async function fail(means: Means, video: Video, error: VideoError, isAtWork: boolean): Promise<Video | null> {
  const { database, clock } = means
  const nowMs = clock.now()
  const failed = await database.transaction(async (tx) => {
    const moved = await moveVideo(tx, 'fail', video, { error, dueAtMs: isAtWork ? nowMs : null, freeEndAtMs: nowMs })
    if (moved === null) return null
    await release(tx, moved.id)
    await means.publish(tx, eventOf('video.failed', moved, nowMs))
    await means.reached?.('failing')
    return moved
  })
  if (failed !== null) countEnd(means, failed, error)
  await means.reached?.('failed')
  return failed
}

/** The customer wants it no more. A provider that may be at it is to be told. */
export async function cancel(means: Means, id: string, organizationId: string): Promise<Video | null> {
  const { database, clock, reached } = means
  const nowMs = clock.now()
  const cancelled = await database.transaction(async (tx) => {
    const written = { dueAtMs: nowMs, freeEndAtMs: nowMs }
    const moved = await moveVideo(tx, 'cancel', { id, attempt: null, organizationId }, written)
    if (moved !== null) await release(tx, id)
    if (moved !== null) await reached?.('cancelling')
    return moved
  }, organizationId)
  if (cancelled !== null) countEnd(means, cancelled, 'cancelled')
  if (cancelled !== null) await reached?.('cancelled')
  return cancelled
}

/** It never had its turn. */
export async function lapse(means: Means, video: Video): Promise<Video | null> {
  const lapsed = await means.database.transaction(async (tx) => {
    const moved = await moveVideo(tx, 'lapse', video, { dueAtMs: null })
    if (moved !== null) await release(tx, moved.id)
    return moved
  })
  if (lapsed !== null) countEnd(means, lapsed, 'expired')
  return lapsed
}

/** Its file has been there for long enough. Nobody begins to fetch it any more; it is removed when those who have are done. */
export function retire({ database, clock }: Means, video: Video): Promise<Video | null> {
  return database.transaction((tx) => moveVideo(tx, 'retire', video, { dueAtMs: clock.now() + LEFT_MS }))
}

/** A file of this attempt, staged, flushed and measured. */
export interface Staged {
  readonly bytes: number
  /** By its packets; above 0. */
  readonly measuredSeconds: number
}

/** Its file is published, its seconds are charged, what was held for it is free again, and its customer is told. */
export async function complete(
  means: Means & Pick<VideoDependencies, 'lowBalanceMicrocents' | 'onNoticed' | 'onDayMended'>,
  video: Video,
  { bytes, measuredSeconds }: Staged,
): Promise<Video | null> {
  const { database, clock } = means
  // Never more than was asked for, and so never more than was held (V6).
  const measured = { usage: NO_TOKENS, videoSeconds: Math.max(Math.round(measuredSeconds), 1) }
  const { videoSeconds: seconds } = boundUsage(measured, usageBound({ videoSeconds: video.seconds }))
  const price = { kind: 'video_second', perSecondMicrocents: video.secondMicrocents, perVideoMicrocents: null } as const
  const costMicrocents = priceVideo(price, seconds)
  const { id, organizationId, keyId, model, tier, priceHash, createdAtMs, submission } = video
  await prepareSettling(database, createdAtMs)
  const nowMs = clock.now()
  const expiresAtMs = nowMs + VIDEO_KEPT_MS
  const done = await database.transaction(async (tx) => {
    const completion = { seconds, costMicrocents, artifact: artifactName(video), artifactBytes: bytes, expiresAtMs }
    const moved = await moveVideo(tx, 'complete', video, {
      dueAtMs: expiresAtMs,
      completion: { ...completion, completedAtMs: nowMs },
    })
    if (moved === null) return null
    const admission = { chargeId: id, admittedAtMs: createdAtMs, organizationId, keyId, model, tier, priceHash }
    const target = `${submission?.provider}/${submission?.model}`
    const charge = { ...admission, seconds, costMicrocents, target }
    const noticed = await settleVideo(tx, charge, nowMs, means.lowBalanceMicrocents, means.onDayMended)
    await means.publish(tx, eventOf('video.completed', moved, nowMs))
    await means.reached?.('completing')
    return { moved, noticed }
  })
  if (done !== null) {
    countEnd(means, done.moved, 'completed')
    means.metrics?.videoCharged(model, seconds, costMicrocents)
  }
  await means.reached?.('completed')
  if (done?.noticed === true) means.onNoticed()
  return done?.moved ?? null
}

function eventOf(type: 'video.completed' | 'video.failed', video: Video, nowMs: number) {
  const { id, object, model, status, error } = videoToWire(video, nowMs)
  const told = type === 'video.failed' ? { id, object, model, status, error } : { id, object, model, status }
  return {
    // The same for ever: a restored database may tell of it once more, and receivers know it by its id.
    id: uuidV5(video.id, type),
    organizationId: video.organizationId,
    type,
    createdAtMs: nowMs,
    data: { video: told },
  }
}
