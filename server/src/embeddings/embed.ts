/** What is particular to a call for embeddings; `paid/payWhole.ts` tells its story. */

import type { Served } from '../catalog/model.ts'
import { rateAt } from '../catalog/price.ts'
import type { Room } from '../kernel/byteBudget.ts'
import { refusal } from '../kernel/errors.ts'
import { type Result, refused } from '../kernel/result.ts'
import type { Admitted } from '../money/admit.ts'
import { settleEmbeddings } from '../money/settle.ts'
import type { PaidAnswer, PaidCaller } from '../paid/caller.ts'
import type { PaidDependencies, PaidMetrics } from '../paid/dependencies.ts'
import { type Delivery, payWhole } from '../paid/payWhole.ts'
import type { OwnWords } from '../paid/refusals.ts'
import { targetName } from '../paid/routeOf.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import { type Embedded, UpstreamFailure } from '../upstream/spec.ts'
import type { VectorWork } from '../upstream/vectors/work.ts'
import { type EmbeddingsRequest, promptTokensAtMost, worstCase } from './request.ts'
import { aroundData } from './wire.ts'

/** Bytes of one answer. */
const ANSWER_MOST_BYTES = 64 << 20

/** The fewest bytes that a number takes in an answer, with its comma: what asks for more than fits is not begun. */
const NUMBER_LEAST_BYTES = 2

export interface EmbeddingsMetrics extends PaidMetrics {
  /** Of a call that was charged. */
  tokens(model: string, promptTokens: number, completionTokens: number, cachedTokens: number): void
}

export interface EmbeddingsDependencies extends PaidDependencies {
  readonly vectors: VectorWork
  /** Counts tokens where the upstream reported none. Never rejects. */
  readonly countTokens: (texts: readonly string[]) => Promise<number>
  readonly metrics?: EmbeddingsMetrics
}

/** Answers a request for embeddings, as `payWhole` does. A large answer is held in `room`. */
export async function embed(
  dependencies: EmbeddingsDependencies,
  caller: PaidCaller,
  served: Served,
  request: EmbeddingsRequest,
  signal: AbortSignal,
  room: Room,
): Promise<Result<PaidAnswer>> {
  const { inputs, dimensions, user } = request
  if (inputs.length * (dimensions ?? 1) * NUMBER_LEAST_BYTES > ANSWER_MOST_BYTES) return refused(TOO_LARGE)
  const tokensAtMost = promptTokensAtMost(inputs, served.model)
  return payWhole<Embedded>(
    dependencies,
    caller,
    served,
    {
      name: 'a call for embeddings',
      traced: { operation: 'embeddings', dimensions },
      ownWords: OWN_WORDS,
      attemptDeadline: 'firstByteMs',
      isRepeatable: true,
      worstAt: (admittedAtMs) => worstCase(rateAt(served.tier.price, admittedAtMs), tokensAtMost),
      send({ upstream, model }, attemptSignal, connectMs) {
        if (upstream.embed === undefined) throw new UpstreamFailure('misconfigured', 'it has no embeddings')
        return upstream.embed({ model, inputs, dimensions, user }, attemptSignal, connectMs, room)
      },
      async deliver(embedded, admitted, target) {
        const counted = await countOf(dependencies, embedded, inputs, tokensAtMost)
        return deliver(dependencies, caller.keep, served, request, embedded, { admitted, target, ...counted })
      },
    },
    signal,
  )
}

async function deliver(
  { vectors, money, metrics }: EmbeddingsDependencies,
  keep: PaidCaller['keep'],
  { model, tier }: Served,
  { format }: EmbeddingsRequest,
  { values, dimensions }: Embedded,
  { admitted, target, promptTokens, estimated }: Counted & { readonly admitted: Admitted; readonly target: ChatTarget },
): Promise<Delivery | null> {
  // Before it is charged: an answer that turns out too large costs nothing.
  const around = aroundData(model.id, promptTokens)
  const written = await vectors.write({ values, dimensions, format, ...around, maxBytes: ANSWER_MOST_BYTES })
  const body = [written]
  const rate = rateAt(tier.price, admitted.admission.admittedAtMs)
  const delivered = { promptTokens, estimated, target: targetName(target) }
  const costMicrocents = await settleEmbeddings(money, admitted, rate, delivered, keep && (() => keep(body)))
  if (costMicrocents === null) return null
  metrics?.tokens(model.id, promptTokens, 0, 0)
  return { body, costMicrocents, traced: { usage: { promptTokens, cachedPromptTokens: 0, completionTokens: 0 } } }
}

interface Counted {
  readonly promptTokens: number
  readonly estimated: boolean
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
): Promise<Counted> {
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

/** Where embeddings say more than what is said of every model. */
const OWN_WORDS: OwnWords = { too_large: TOO_LARGE, context_length: TOO_LONG, rejected: REJECTED }
