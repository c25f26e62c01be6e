import type { Served } from '../catalog/model.ts'
import { videoPriceOf } from '../catalog/price.ts'
import { Refused, refusal } from '../kernel/errors.ts'
import { uuidV7 } from '../kernel/ids.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { SECOND_MS, sleep } from '../kernel/time.ts'
import { readFigures } from '../money/accounts/figures.ts'
import { WAITING_LIMIT } from '../money/admit.ts'
import { readBalance } from '../money/balance.ts'
import { setAside } from '../money/holds/hold.ts'
import { priceVideo } from '../money/pricing.ts'
import type { PaidCaller } from '../paid/caller.ts'
import { SUPERSEDED } from '../paid/refusals.ts'
import { tracedOf } from '../paid/trace.ts'
import type { VideoDependencies } from './dependencies.ts'
import { enterQueue } from './queue/pace.ts'
import type { VideoRequest } from './request.ts'
import { insertVideo, type NewVideo } from './store.ts'
import { LAPSE_MS, type Video } from './video.ts'

/** How long a job waits for calls to give money back before its 402, and how often it asks. */
const WAIT_MS = 2 * SECOND_MS
const POLL_MS = 50

const SHORT = refusal(
  'insufficient_balance',
  'The credit balance does not cover this video. Add credit, or ask for fewer seconds.',
)

const UNAVAILABLE = refusal(
  'upstream_unavailable',
  'The service cannot take videos at this moment. Nothing was done or charged; try again shortly.',
  { retryAfterSeconds: 1 },
)

const OF_A_JOB = { operation: 'generate_content', isStreamed: false, maxTokens: null, temperature: null } as const

/** What is kept is kept with the job, by its transaction. */
export type VideoCaller = PaidCaller<Video>

type CreateDependencies = Pick<
  VideoDependencies,
  'database' | 'clock' | 'random' | 'log' | 'money' | 'metrics' | 'telemetry'
>

/**
 * Accepts a job: its row, the money for all of its seconds and the kept answer in one transaction. What processes hold
 * idle of the balance is called back first, for up to two seconds; then it is refused. Throws `Refused` where another process
 * has taken the Idempotency-Key over, and where the balance can't be read (P3).
 */
export async function createVideo(
  dependencies: CreateDependencies,
  caller: VideoCaller,
  served: Served,
  request: VideoRequest,
): Promise<Result<Video>> {
  const { clock, random, metrics, telemetry } = dependencies
  const { organizationId, keyId, keep } = caller
  const { model, tier } = served
  const price = videoPriceOf(tier.price)
  const createdAtMs = clock.now()
  const job: NewVideo = {
    ...request,
    id: uuidV7(createdAtMs, random),
    organizationId,
    keyId,
    createdAtMs,
    model: model.id,
    tier: tier.name,
    priceHash: tier.priceHash,
    secondMicrocents: price.perSecondMicrocents,
    lapsesAtMs: createdAtMs + LAPSE_MS,
  }
  const traced = { id: job.id, seconds: job.seconds }
  const trace = telemetry?.begin({ ...tracedOf(caller, served), ...OF_A_JOB, job: traced })
  let error: string | null = 'internal_error'
  try {
    const created = await createOrWait(dependencies, job, priceVideo(price, request.seconds), keep)
    if (created.ok) metrics?.videoCreated(model.id)
    else metrics?.refusedForMoney(created.refusal.code)
    error = created.ok ? null : created.refusal.code
    return created
  } catch (thrown) {
    if (thrown instanceof Refused) error = thrown.refusal.code
    throw thrown
  } finally {
    trace?.end({ error, finishReason: null, usage: null, costMicrocents: null })
  }
}

async function createOrWait(
  dependencies: CreateDependencies,
  job: NewVideo,
  heldMicrocents: bigint,
  keep: VideoCaller['keep'],
): Promise<Result<Video>> {
  const { clock, money, metrics } = dependencies
  const startedMs = clock.monotonicMs()
  for (let tries = 1; ; tries += 1) {
    const video = await tryCreate(dependencies, job, heldMicrocents, keep)
    const elapsedMs = clock.monotonicMs() - startedMs
    if (video !== null && tries > 1) metrics?.waitedForMoney(elapsedMs)
    if (video !== null) return ok(video)
    const isWorthIt = elapsedMs < WAIT_MS && money.waitingCalls < WAITING_LIMIT
    if (!isWorthIt || !(await mayComeBack(dependencies, job.organizationId, heldMicrocents))) {
      metrics?.waitedForMoney(elapsedMs)
      return refused(SHORT)
    }
    money.waitingCalls += 1
    await sleep(clock, POLL_MS)
    money.waitingCalls -= 1
  }
}

/** Null: there is not enough at this moment. */
async function tryCreate(
  dependencies: CreateDependencies,
  job: NewVideo,
  heldMicrocents: bigint,
  keep: VideoCaller['keep'],
): Promise<Video | null> {
  let isRead = false
  const creating = dependencies.database.transaction(async (tx) => {
    const { id, organizationId } = job
    const isSetAside = await setAside(tx, { id, organizationId, microcents: heldMicrocents })
    isRead = true
    if (!isSetAside) return null
    await enterQueue(tx, job.model)
    const video = await insertVideo(tx, job)
    for (const ride of (await keep?.(video)) ?? []) {
      // The job is the other's to make, who has the key now: nothing of this one stays.
      if (!(await ride(tx))) throw new Refused(SUPERSEDED)
    }
    return video
  })
  return creating.catch((error: unknown) => {
    throw isRead ? error : unreadable(dependencies, error)
  })
}

/** For a balance that can't be read: nothing is served unchecked. Counts it. */
function unreadable({ money, log }: CreateDependencies, error: unknown): Refused {
  money.onUnreadable?.()
  log.warn({ err: error }, 'the balance could not be read, and a video was refused')
  return new Refused(UNAVAILABLE)
}

/** Whether the balance covers it beside what videos hold, so that the rest is with calls; if so, that is asked back. */
async function mayComeBack(
  dependencies: CreateDependencies,
  organizationId: string,
  neededMicrocents: bigint,
): Promise<boolean> {
  const { database, clock, money } = dependencies
  const figures = await readFigures(database, organizationId, clock.now()).catch((error: unknown) => {
    throw unreadable(dependencies, error)
  })
  // Opens the account of an organization that never had one.
  if (figures === null) return (await readBalance(database, organizationId)) >= neededMicrocents
  if (figures.balanceMicrocents - figures.heldMicrocents < neededMicrocents) return false
  const wallet = money.wallet(organizationId)
  money.recall(wallet)
  await money.writer.refill(wallet, 0n, { kind: 'recall' }).catch(() => {})
  return true
}
