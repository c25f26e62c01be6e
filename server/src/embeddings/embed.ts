/** The story of one call for embeddings: admit, call the upstream, write the answer, settle, reply. */

import type { Catalog, Served } from '../catalog/model.ts'
import { rateAt } from '../catalog/price.ts'
import type { Room } from '../kernel/byteBudget.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { CallTrace, Telemetry } from '../kernel/telemetry.ts'
import type { Clock } from '../kernel/time.ts'
import { type Admitted, admit, type Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import { type PaidAnswer, type PaidCaller, SUPERSEDED } from '../money/paid.ts'
import { settleEmbeddings } from '../money/settle.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import type { Health } from '../routing/health.ts'
import { toRefusal } from '../routing/refusal.ts'
import type { RoutingMetrics } from '../routing/report.ts'
import { askWhole } from '../routing/whole.ts'
import { type Embedded, UpstreamFailure, type UpstreamFailureKind } from '../upstream/spec.ts'
import type { VectorWork } from '../upstream/vectors/work.ts'
import { TooManyBytes } from '../upstream/vectors/write.ts'
import { type EmbeddingsRequest, promptTokensAtMost, worstCase } from './request.ts'
import { aroundData } from './wire.ts'

/** Bytes of one answer. */
const ANSWER_MOST_BYTES = 64 << 20

/** The fewest bytes that a number takes in an answer, with its comma: what asks for more than fits is not begun. */
const NUMBER_LEAST_BYTES = 2

export interface EmbeddingsMetrics extends RoutingMetrics {
  /** Of a call that was charged. */
  tokens(model: string, promptTokens: number, completionTokens: number, cachedTokens: number): void
  /** The charge of a call is durable, so long after its admission. */
  charged(model: string, outcome: Outcome, costMicrocents: bigint, elapsedMs: number): void
  /** A call could not be admitted from memory; so long it took until it was, or was refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
}

export interface EmbeddingsDependencies {
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
  readonly vectors: VectorWork
  /** Counts tokens where the upstream reported none. Never rejects. */
  readonly countTokens: (texts: readonly string[]) => Promise<number>
  readonly metrics?: EmbeddingsMetrics
  /** Where calls are traced. */
  readonly telemetry?: Telemetry
}

/**
 * Answers a request for embeddings. A refusal means that nothing was charged. `signal` says that the client is gone: the
 * upstream is cancelled, and nothing is charged. The reply leaves after the charge is durable. A large answer is held in `room`.
 */
export async function embed(
  dependencies: EmbeddingsDependencies,
  caller: PaidCaller,
  served: Served,
  request: EmbeddingsRequest,
  signal: AbortSignal,
  room: Room,
): Promise<Result<PaidAnswer>> {
  if (request.inputs.length * (request.dimensions ?? 1) * NUMBER_LEAST_BYTES > ANSWER_MOST_BYTES)
    return refused(TOO_LARGE)
  const { model, tier } = served
  const { organizationId, keyId, keep } = caller
  const tokensAtMost = promptTokensAtMost(request.inputs, model)
  const { clock, metrics } = dependencies
  const trace = dependencies.telemetry?.begin(toTraced(caller, served, request)) ?? null
  const startedAtMs = clock.monotonicMs()
  const passed = admit(
    dependencies.money,
    { organizationId, keyId, model: model.id, tier: tier.name, priceHash: tier.priceHash },
    (admittedAtMs) => worstCase(rateAt(tier.price, admittedAtMs), tokensAtMost),
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
    const reply = await answer(dependencies, admitted, served, request, tokensAtMost, { signal, room, keep, trace })
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

function toTraced(
  { organizationId, keyId, traceparent }: PaidCaller,
  { model, tier }: Served,
  request: EmbeddingsRequest,
) {
  const { dimensions } = request
  const limits = { isStreamed: false, maxTokens: null, temperature: null }
  const caller = { organizationId, keyId, traceparent }
  return { operation: 'embeddings', model: model.id, tier: tier.name, ...caller, ...limits, dimensions } as const
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
  dependencies: EmbeddingsDependencies,
  admitted: Admitted,
  served: Served,
  request: EmbeddingsRequest,
  tokensAtMost: number,
  { signal, room, keep, trace }: Surroundings,
): Promise<PaidAnswer | null> {
  const { clock, log, money, vectors, metrics } = dependencies
  const { inputs, dimensions, user, format } = request
  const { deadlines } = dependencies.catalog()
  const ask = ({ upstream, model }: ChatTarget, attemptSignal: AbortSignal, connectMs: number): Promise<Embedded> => {
    if (upstream.embed === undefined) throw new UpstreamFailure('misconfigured', 'it has no embeddings', false)
    return upstream.embed({ model, inputs, dimensions, user }, attemptSignal, connectMs, room)
  }
  const { target, answer: embedded } = await askWhole(dependencies.targets(served), ask, {
    signal,
    deadlines,
    plan: served.tier.routing,
    health: dependencies.health,
    random: dependencies.random,
    clock,
    log,
    attemptMs: deadlines.firstByteMs,
    isRepeatable: true,
    ...(metrics === undefined ? {} : { metrics }),
    ...(trace && { onAttempt: ({ upstream, model }, ...how) => trace.attempt(upstream.name, model, ...how) }),
  })
  const { promptTokens, estimated } = await countOf(dependencies, embedded, inputs, tokensAtMost)
  // Before it is charged: an answer that turns out too large costs nothing.
  const written = await vectors.write({
    values: embedded.values,
    dimensions: embedded.dimensions,
    format,
    ...aroundData(served.model.id, promptTokens),
    maxBytes: ANSWER_MOST_BYTES,
  })
  const body = [written]
  const costMicrocents = await settleEmbeddings(
    money,
    admitted,
    rateAt(served.tier.price, admitted.admission.admittedAtMs),
    { promptTokens, estimated, target: `${target.upstream.name}/${target.model}` },
    keep && (() => keep(body)),
  )
  if (costMicrocents === null) return null
  metrics?.tokens(served.model.id, promptTokens, 0, 0)
  const usage = { promptTokens, cachedPromptTokens: 0, completionTokens: 0 }
  trace?.end({ error: null, finishReason: null, usage, costMicrocents })
  return { body, costMicrocents }
}

/**
 * What the upstream reported, where these inputs can come to it; else a count of ours (C4). Never more than what the hold
 * is for: a charge above it could take the balance below zero.
 */
async function countOf(
  { countTokens }: EmbeddingsDependencies,
  { promptTokens }: Embedded,
  inputs: readonly string[],
  tokensAtMost: number,
): Promise<{ readonly promptTokens: number; readonly estimated: boolean }> {
  if (promptTokens !== null && promptTokens <= tokensAtMost) return { promptTokens, estimated: false }
  return { promptTokens: Math.min(await countTokens(inputs), tokensAtMost), estimated: true }
}

const TOO_LARGE = refusal(
  'upstream_response_too_large',
  'The vectors would have more than 64 MiB, the most that one answer may have. Nothing was charged. Send fewer inputs, or ask for fewer dimensions.',
)

const TOO_LONG = refusal(
  'context_length_exceeded',
  "An input does not fit the model's context. Nothing was charged. Shorten it, or send it in parts.",
  { param: 'input' },
)

const REJECTED = refusal(
  'invalid_request',
  'The model does not take this request. Nothing was charged. Check the texts, and leave out dimensions.',
)

/** Nobody reads this; it ends the request. */
const CLIENT_GONE = refusal('upstream_unavailable', 'The client closed the connection. Nothing was charged.')

/** Where embeddings say more than what is said of every model. */
const OWN_WORDS: Readonly<Partial<Record<UpstreamFailureKind, Refusal>>> = {
  too_large: TOO_LARGE,
  context_length: TOO_LONG,
  rejected: REJECTED,
}

/** In the client's words (C7); the operator's are in the log. */
function explain(
  { log }: EmbeddingsDependencies,
  error: unknown,
  { admission }: Admitted,
  signal: AbortSignal,
): Refusal {
  if (error instanceof TooManyBytes) return TOO_LARGE
  if (error instanceof UpstreamFailure)
    return (error.publicMessage === null && OWN_WORDS[error.kind]) || toRefusal(error)
  if (signal.aborted) return CLIENT_GONE
  log.error({ err: error, chargeId: admission.chargeId }, 'a call for embeddings failed')
  return refusal('internal_error', 'The call failed here, unexpectedly. Nothing was charged; it is safe to try again.')
}
