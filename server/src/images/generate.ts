/** The story of one call for images: admit, call the upstream, measure, settle, reply. */

import type { Catalog, Served } from '../catalog/model.ts'
import type { ImagePrice, PriceTable } from '../catalog/price.ts'
import type { Room } from '../kernel/byteBudget.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { CallTrace, Telemetry } from '../kernel/telemetry.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import { type Admitted, admit, type Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import { type PaidAnswer, type PaidCaller, SUPERSEDED } from '../money/paid.ts'
import { settleImages } from '../money/settle.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import type { Health } from '../routing/health.ts'
import { toRefusal } from '../routing/refusal.ts'
import type { RoutingMetrics } from '../routing/report.ts'
import { askWhole } from '../routing/whole.ts'
import { type Drawn, UpstreamFailure } from '../upstream/spec.ts'
import { measurePixels } from './measure.ts'
import { type ImagesRequest, worstCase } from './request.ts'
import { imagesToWire } from './wire.ts'

export interface ImagesMetrics extends RoutingMetrics {
  /** Of a call that was charged. */
  images(model: string, count: number): void
  /** The charge of a call is durable, so long after its admission. */
  charged(model: string, outcome: Outcome, costMicrocents: bigint, elapsedMs: number): void
  /** A call could not be admitted from memory; so long it took until it was, or was refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
}

export interface ImagesDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly money: Money
  readonly catalog: () => Catalog
  /** The clients of a tier's targets, in the order they are tried. */
  readonly targets: (served: Served) => readonly ChatTarget[]
  /** What is known of all targets. */
  readonly health: Health
  /** From 0 up to, and without, 1. */
  readonly random: () => number
  readonly metrics?: ImagesMetrics
  /** Where calls are traced. */
  readonly telemetry?: Telemetry
}

/**
 * Answers a request for images. A refusal means that nothing was charged. `signal` says that the client is gone: the
 * upstream is cancelled, and nothing is charged. The reply leaves after the charge is durable. A large answer is held in `room`.
 */
export async function generate(
  dependencies: ImagesDependencies,
  caller: PaidCaller,
  served: Served,
  request: ImagesRequest,
  signal: AbortSignal,
  room: Room,
): Promise<Result<PaidAnswer>> {
  const { model, tier } = served
  const { organizationId, keyId, keep } = caller
  const price = imagePriceOf(tier.price)
  const { clock, metrics } = dependencies
  const trace = dependencies.telemetry?.begin(toTraced(caller, served, request)) ?? null
  const startedAtMs = clock.monotonicMs()
  const passed = admit(
    dependencies.money,
    { organizationId, keyId, model: model.id, tier: tier.name, priceHash: tier.priceHash },
    () => worstCase(price, request),
    model,
  )
  const admission = passed instanceof Promise ? await passed : passed
  if (passed instanceof Promise) metrics?.waitedForMoney(clock.monotonicMs() - startedAtMs)
  if (!admission.ok) {
    metrics?.refusedForMoney(admission.refusal.code)
    trace?.end({ ...NOTHING, error: admission.refusal.code })
    return admission
  }
  const admitted = admission.value
  const admittedMonotonicMs = clock.monotonicMs()
  try {
    const reply = await answer(dependencies, admitted, served, price, request, { signal, room, keep, trace })
    if (reply === null) {
      trace?.end({ ...NOTHING, error: SUPERSEDED.code })
      return refused(SUPERSEDED)
    }
    metrics?.charged(model.id, 'completed', reply.costMicrocents, clock.monotonicMs() - admittedMonotonicMs)
    return ok(reply)
  } catch (error) {
    // Once it is charged it is spent; whatever failed then, the answer did not.
    if (admitted.hold.isOpen) admitted.hold.release()
    const why = explain(dependencies, error, admitted, signal)
    trace?.end({ ...NOTHING, error: signal.aborted ? 'cancelled' : why.code })
    return refused(why)
  }
}

/** The settings give image models no other. */
function imagePriceOf(price: PriceTable): ImagePrice {
  if (price.kind === 'image' || price.kind === 'megapixel') return price
  throw new Error(`a price by ${price.kind} is none of images`)
}

function toTraced(
  { organizationId, keyId, traceparent }: PaidCaller,
  { model, tier }: Served,
  { count }: ImagesRequest,
) {
  const limits = { isStreamed: false, maxTokens: null, temperature: null }
  const caller = { organizationId, keyId, traceparent }
  return {
    operation: 'generate_content',
    model: model.id,
    tier: tier.name,
    ...caller,
    ...limits,
    images: count,
  } as const
}

/** What is told to a trace of a call that came to nothing. */
const NOTHING = { finishReason: null, usage: null, costMicrocents: null }

interface Surroundings {
  readonly signal: AbortSignal
  readonly room: Room
  readonly keep: PaidCaller['keep']
  readonly trace: CallTrace | null
}

/** Null: another process has taken the request over. */
async function answer(
  dependencies: ImagesDependencies,
  admitted: Admitted,
  served: Served,
  price: ImagePrice,
  request: ImagesRequest,
  { signal, room, keep, trace }: Surroundings,
): Promise<PaidAnswer | null> {
  const { clock, log, money, metrics } = dependencies
  const { prompt, count, size } = request
  const { deadlines } = dependencies.catalog()
  const ask = ({ upstream, model }: ChatTarget, attemptSignal: AbortSignal, connectMs: number): Promise<Drawn> => {
    if (upstream.draw === undefined) throw new UpstreamFailure('misconfigured', 'it makes no images', false)
    return upstream.draw({ model, prompt, count, size }, attemptSignal, connectMs, room)
  }
  const { target, answer: drawn } = await askWhole(dependencies.targets(served), ask, {
    signal,
    deadlines,
    plan: served.tier.routing,
    health: dependencies.health,
    random: dependencies.random,
    clock,
    log,
    // An answer begins when all of it is made.
    attemptMs: deadlines.wholeMs,
    isRepeatable: false,
    ...(metrics === undefined ? {} : { metrics }),
    ...(trace && { onAttempt: ({ upstream, model }, ...how) => trace.attempt(upstream.name, model, ...how) }),
  })
  const { images, pixels } = keepImages(drawn, request)
  if (images.length === 0) {
    log.warn({ upstream: target.upstream.name, model: target.model }, 'an upstream sent images of no known format')
    throw new UpstreamFailure('faulty', 'there is no image in the answer', false)
  }
  const { admittedAtMs } = admitted.admission
  const body = imagesToWire(Math.floor(admittedAtMs / SECOND_MS), images)
  const delivered = { images: { count: images.length, pixels }, target: `${target.upstream.name}/${target.model}` }
  const costMicrocents = await settleImages(money, admitted, price, delivered, keep && (() => keep(body)))
  if (costMicrocents === null) return null
  metrics?.images(served.model.id, images.length)
  trace?.end({ error: null, finishReason: null, usage: null, costMicrocents, images: images.length })
  return { body, costMicrocents }
}

/** What is delivered, and so charged: images that are some, no more than were asked for, none larger than was. */
function keepImages(drawn: Drawn, { count, pixelsMost }: ImagesRequest): { images: Drawn; pixels: number } {
  const images: Uint8Array<ArrayBuffer>[] = []
  let pixels = 0
  for (const image of drawn) {
    const measured = images.length < count ? measurePixels(image) : null
    if (measured === null) continue
    images.push(image)
    pixels += Math.min(measured, pixelsMost)
  }
  return { images, pixels }
}

const REJECTED = refusal(
  'invalid_request',
  'The model does not take this request. Nothing was charged. Say it in other words, or ask for another size.',
)

const TOO_LONG = refusal('context_length_exceeded', 'The prompt is too long for the model. Shorten it.', {
  param: 'prompt',
})

/** Nobody reads this; it ends the request. */
const CLIENT_GONE = refusal('upstream_unavailable', 'The client closed the connection. Nothing was charged.')

/** In the client's words (C7); the operator's are in the log. */
function explain({ log }: ImagesDependencies, error: unknown, { admission }: Admitted, signal: AbortSignal): Refusal {
  if (error instanceof UpstreamFailure) {
    if (error.publicMessage === null && error.kind === 'rejected') return REJECTED
    return error.publicMessage === null && error.kind === 'context_length' ? TOO_LONG : toRefusal(error)
  }
  if (signal.aborted) return CLIENT_GONE
  log.error({ err: error, chargeId: admission.chargeId }, 'a call for images failed')
  return refusal('internal_error', 'The call failed here, unexpectedly. Nothing was charged; it is safe to try again.')
}
