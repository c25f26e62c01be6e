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

/** What is kept is kept with the job, by its transaction. */
export type VideoCaller = Omit<PaidCaller<Video>, 'traceparent'>

type CreateDependencies = Pick<VideoDependencies, 'database' | 'clock' | 'random' | 'money'>

/**
 * Accepts a job: its row, the money for all of its seconds and the kept answer in one transaction. What processes hold
 * idle of the balance is called back first, for up to two seconds; then it is refused. Throws `Refused` where another process
 * has taken the Idempotency-Key over.
 */
export async function createVideo(
  dependencies: CreateDependencies,
  { organizationId, keyId, keep }: VideoCaller,
  { model, tier }: Served,
  request: VideoRequest,
): Promise<Result<Video>> {
  const { clock, random, money } = dependencies
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
  const heldMicrocents = priceVideo(price, request.seconds)
  const deadlineMs = clock.monotonicMs() + WAIT_MS
  for (;;) {
    const video = await tryCreate(dependencies, job, heldMicrocents, keep)
    if (video !== null) return ok(video)
    const isWorthIt = clock.monotonicMs() < deadlineMs && money.waitingCalls < WAITING_LIMIT
    if (!isWorthIt || !(await mayComeBack(dependencies, organizationId, heldMicrocents))) return refused(SHORT)
    money.waitingCalls += 1
    await sleep(clock, POLL_MS)
    money.waitingCalls -= 1
  }
}

/** Null: there is not enough at this moment. */
function tryCreate(
  { database }: CreateDependencies,
  job: NewVideo,
  heldMicrocents: bigint,
  keep: VideoCaller['keep'],
): Promise<Video | null> {
  return database.transaction(async (tx) => {
    const { id, organizationId } = job
    if (!(await setAside(tx, { id, organizationId, microcents: heldMicrocents }))) return null
    await enterQueue(tx, job.model)
    const video = await insertVideo(tx, job)
    for (const ride of (await keep?.(video)) ?? []) {
      // The job is the other's to make, who has the key now: nothing of this one stays.
      if (!(await ride(tx))) throw new Refused(SUPERSEDED)
    }
    return video
  })
}

/** Whether the balance covers it beside what videos hold, so that the rest is with calls; if so, that is asked back. */
async function mayComeBack(
  { database, clock, money }: CreateDependencies,
  organizationId: string,
  neededMicrocents: bigint,
): Promise<boolean> {
  const figures = await readFigures(database, organizationId, clock.now())
  // Opens the account of an organization that never had one.
  if (figures === null) return (await readBalance(database, organizationId)) >= neededMicrocents
  if (figures.balanceMicrocents - figures.heldMicrocents < neededMicrocents) return false
  const wallet = money.wallet(organizationId)
  money.recall(wallet)
  await money.writer.refill(wallet, 0n, { kind: 'recall' }).catch(() => {})
  return true
}
