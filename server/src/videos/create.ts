import { readFigures } from '../billing/admission/accounts/figures.ts'
import { CROWDED, insufficientFor, unreadableFor } from '../billing/admission/gateRefusals.ts'
import { placeHold } from '../billing/admission/holds/hold.ts'
import { MoneyWait } from '../billing/admission/moneyWait.ts'
import { priceVideo } from '../billing/charges/pricing.ts'
import type { ResolvedModel } from '../catalog/model.ts'
import { videoPriceOf } from '../catalog/price.ts'
import { INVALID_API_KEY } from '../http/principal.ts'
import type { Participant } from '../infra/postgres/database.ts'
import { joinAll } from '../infra/postgres/joinAll.ts'
import { type Refusal, Refused } from '../lib/errors.ts'
import { uuidV7 } from '../lib/ids.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import { HOUR_MS } from '../lib/time.ts'
import { refuseAfterFreeEnds } from './freeEnds.ts'
import { fullQueue, refuseWhenFull } from './fullQueue.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { acceptedVideo, LAPSE_MS, type NewVideo, type Video } from './job/video.ts'
import { enterQueue } from './queue/pace.ts'
import type { VideoRequest } from './request.ts'
import { dropUnpaid, insertVideo } from './store.ts'

const INSUFFICIENT = insufficientFor('balance', 'this video', 'Fewer seconds cost less.')

const UNAVAILABLE = unreadableFor('videos')

const OF_A_JOB = { operation: 'generate_content', isStreamed: false, maxTokens: null, temperature: null } as const

/** The organization and the API key that a job is created for. */
export interface VideoCaller {
  readonly organizationId: string
  readonly keyId: string
  /** The client's header of that name, where calls are traced. */
  readonly traceparent: string | null
}

type CreateDependencies = Pick<
  VideoDependencies,
  | 'database'
  | 'clock'
  | 'random'
  | 'log'
  | 'money'
  | 'metrics'
  | 'telemetry'
  | 'cancellationsPerHour'
  | 'failuresPerHour'
  | 'queuedMost'
>

/** Returns a job as it would be accepted now, at the price of this instant. */
export function newVideo(
  { clock, random }: Pick<VideoDependencies, 'clock' | 'random'>,
  { organizationId, keyId }: VideoCaller,
  { model, tier }: ResolvedModel,
  request: VideoRequest,
): NewVideo {
  const createdAtMs = clock.now()
  return {
    ...request,
    id: uuidV7(createdAtMs, random),
    organizationId,
    keyId,
    createdAtMs,
    model: model.id,
    tier: tier.name,
    priceHash: tier.priceHash,
    secondMicrocents: videoPriceOf(tier.price).perSecondMicrocents,
    lapsesAtMs: createdAtMs + LAPSE_MS,
  }
}

/**
 * Accepts a job: its row, the money for all of its seconds and `participants`, which keep its answer, in one transaction.
 * Refused where too many of the organization were cancelled in progress or failed lately, or too many wait, before anything
 * is asked about money. Where the balance is short, reclaims idle shares and tries again for 2 s; then refuses. Throws
 * `Refused` where another process has taken the Idempotency-Key over, and where a gate can't be read (P3).
 */
export async function createVideo(
  dependencies: CreateDependencies,
  { organizationId, keyId, traceparent }: VideoCaller,
  job: NewVideo,
  participants: readonly Participant[] = [],
): Promise<Result<Video>> {
  const { metrics, telemetry } = dependencies
  const { model, tier } = job
  const traced = { id: job.id, seconds: job.seconds }
  const who = { model, tier, organizationId, keyId, traceparent }
  const trace = telemetry?.begin({ ...who, ...OF_A_JOB, job: traced })
  let error: string | null = 'internal_error'
  try {
    if (!dependencies.money.knowsTime()) throw unreadable(dependencies, 'the time is in doubt')
    const tooMany = await refuseTooMany(dependencies, organizationId).catch((thrown: unknown) => {
      throw unreadable(dependencies, thrown)
    })
    if (tooMany !== null) {
      error = tooMany.code
      return refused(tooMany)
    }
    const short = await createOrWait(dependencies, job, participants)
    if (short === null) metrics?.videoCreated(model)
    else metrics?.refusedForMoney(short.code)
    error = short?.code ?? null
    return short === null ? ok(acceptedVideo(job)) : refused(short)
  } catch (thrown) {
    if (thrown instanceof Refused) error = thrown.refusal.code
    throw thrown
  } finally {
    trace?.end({ error, finishReason: null, usage: null, costMicrocents: null })
  }
}

/** Returns the refusal of an organization that has reached a limit on its jobs; null where it has not. */
async function refuseTooMany(dependencies: CreateDependencies, organizationId: string): Promise<Refusal | null> {
  return (
    (await refuseAfterFreeEnds(dependencies, organizationId)) ?? (await refuseWhenFull(dependencies, organizationId))
  )
}

/** Returns null once the job is accepted, or why it is not. */
async function createOrWait(
  dependencies: CreateDependencies,
  job: NewVideo,
  participants: readonly Participant[],
): Promise<Refusal | null> {
  const { money, metrics } = dependencies
  const price = { kind: 'video_second', perSecondMicrocents: job.secondMicrocents, perVideoMicrocents: null } as const
  const heldMicrocents = priceVideo(price, job.seconds)
  const wait = new MoneyWait(money)
  for (let tries = 1; ; tries += 1) {
    const isCreated = await tryCreate(dependencies, job, heldMicrocents, participants)
    if (isCreated && tries > 1) metrics?.waitedForMoney(wait.elapsedMs)
    if (isCreated) return null
    const share = money.share(job.organizationId)
    const end = wait.endFor(share)
    const isShort = end === 'over' || !(await mayComeBack(dependencies, job.organizationId, heldMicrocents))
    if (isShort || end !== null) {
      metrics?.waitedForMoney(wait.elapsedMs)
      return isShort ? INSUFFICIENT : CROWDED
    }
    await wait.forAccount(share)
  }
}

/** Returns false when there is not enough at this moment. */
async function tryCreate(
  dependencies: CreateDependencies,
  job: NewVideo,
  heldMicrocents: bigint,
  participants: readonly Participant[],
): Promise<boolean> {
  const { database, clock, queuedMost } = dependencies
  let isRead = false
  const creating = database.transaction(async (tx) => {
    const { id, organizationId } = job
    const isHeld = await placeHold(tx, { id, organizationId, microcents: heldMicrocents })
    isRead = true
    if (!isHeld) return false
    await enterQueue(tx, job.model)
    // The account is locked since the hold was placed: what others of the organization inserted is counted.
    const inserted = await insertVideo(tx, job, queuedMost)
    if (inserted === 'deleted') throw new Refused(INVALID_API_KEY)
    if (inserted === 'full') throw new Refused(fullQueue(queuedMost))
    await dropUnpaid(tx, organizationId, clock.now() - HOUR_MS)
    await joinAll(tx, participants)
    return true
  }, job.organizationId)
  return creating.catch((error: unknown) => {
    throw isRead || error instanceof Refused ? error : unreadable(dependencies, error)
  })
}

/** For a gate that can't be read: nothing is served unchecked. Counts it. */
function unreadable({ money, log }: CreateDependencies, error: unknown): Refused {
  money.onUnreadable?.()
  log.warn({ err: error }, 'a gate could not be read, and a video was refused')
  return new Refused(UNAVAILABLE)
}

/** Returns whether the balance covers it beside durable holds, so that what it lacks is with calls and may come back. */
async function mayComeBack(
  dependencies: CreateDependencies,
  organizationId: string,
  neededMicrocents: bigint,
): Promise<boolean> {
  const { database, clock } = dependencies
  const figures = await readFigures(database, organizationId, clock.now()).catch((error: unknown) => {
    throw unreadable(dependencies, error)
  })
  return figures !== null && figures.balanceMicrocents - figures.heldMicrocents >= neededMicrocents
}
