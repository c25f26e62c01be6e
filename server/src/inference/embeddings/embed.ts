/** The part of a paid call that is particular to embeddings; `inference/call/payWhole.ts` tells its story. */

import type { Admitted } from '../../billing/admission/admit.ts'
import { embeddingTerms, NO_TOKENS, prepare } from '../../billing/charges/settle.ts'
import type { ResolvedModel } from '../../catalog/model.ts'
import { rateAt } from '../../catalog/price.ts'
import type { MemoryReservation } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { type Result, refused } from '../../lib/result.ts'
import { type Embedded, ProviderFailure, type ProviderTarget } from '../../providers/dialect/spec.ts'
import type { VectorWork } from '../../providers/vectors/work.ts'
import type { InferenceCaller } from '../call/caller.ts'
import type { InferenceDependencies } from '../call/dependencies.ts'
import { beginCall, targetName } from '../call/paidCall.ts'
import { type InferenceAnswer, type PreparedAnswer, payWhole } from '../call/payWhole.ts'
import type { OwnWords } from '../call/refusals.ts'
import { type CountedEmbeddings, countOf } from './count.ts'
import { type EmbeddingsRequest, embeddingWorstCase, firstTooLong, inputTokensAtMost } from './request.ts'
import { aroundData } from './wire.ts'

/** Bytes of one answer. */
const ANSWER_MOST_BYTES = 64 << 20

/** The fewest bytes that a number takes in an answer, with its comma: what asks for more than fits is not begun. */
const NUMBER_LEAST_BYTES = 2

export interface EmbeddingsDependencies extends InferenceDependencies {
  readonly vectors: VectorWork
  /** Counts tokens where the provider reported none, or too few. It may stop at `tokensMost`. Never rejects. */
  readonly countTokens: (texts: readonly string[], organizationId: string, tokensMost?: number) => Promise<number>
}

/** Answers a request for embeddings, as `payWhole` does. A large answer is held in `memory`. */
export async function embed(
  dependencies: EmbeddingsDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  request: EmbeddingsRequest,
  signal: CallSignal,
  memory: MemoryReservation,
): Promise<Result<InferenceAnswer>> {
  const { inputs, dimensions, user } = request
  if (inputs.length * (dimensions ?? 1) * NUMBER_LEAST_BYTES > ANSWER_MOST_BYTES) return refused(TOO_LARGE)
  const tooLong = firstTooLong(inputs, resolved.model)
  if (tooLong !== null) return refused(farTooLong(tooLong, inputs.length))
  const { contextTokens } = resolved.model
  const tokensAtMost = inputTokensAtMost(inputs, resolved.model)
  const admission = beginCall(dependencies.money, caller, resolved)
  return payWhole<Embedded>(
    dependencies,
    caller,
    resolved,
    {
      name: 'a call for embeddings',
      traced: { operation: 'embeddings', dimensions },
      ownWords: OWN_WORDS,
      attemptDeadline: 'firstByteMs',
      isRepeatable: true,
      memory,
      admission,
      worst: embeddingWorstCase(rateAt(resolved.tier.price, admission.admittedAtMs), tokensAtMost),
      send({ provider, model }, attemptSignal, connectMs, onWritten) {
        if (provider.embed === undefined) throw new ProviderFailure('misconfigured', 'it has no embeddings')
        return provider.embed({ model, inputs, dimensions, user }, attemptSignal, connectMs, memory, onWritten)
      },
      async deliver(embedded, admitted, target) {
        const sent = { inputs, contextTokens, tokensAtMost }
        const countTokens = (texts: readonly string[], tokensMost?: number) =>
          dependencies.countTokens(texts, caller.organizationId, tokensMost)
        const counted = await countOf(countTokens, sent, embedded.promptTokens)
        return deliver(dependencies, resolved, request, embedded, { admitted, target, tokensAtMost, counted })
      },
    },
    signal,
  )
}

async function deliver(
  { vectors, money, log }: EmbeddingsDependencies,
  { model, tier }: ResolvedModel,
  { format }: EmbeddingsRequest,
  { values, dimensions }: Embedded,
  { admitted, target, tokensAtMost, counted }: Deliverable,
): Promise<PreparedAnswer> {
  const { chargeId, admittedAtMs } = admitted.admission
  const rate = rateAt(tier.price, admittedAtMs)
  if (counted.disbelieved !== null) {
    const figures = { reported: counted.disbelieved, counted: counted.promptTokens }
    log.warn({ chargeId, target: targetName(target), ...figures }, 'a provider reports too few tokens')
  }
  const prepared = await prepare(money, admitted, embeddingTerms(rate, tokensAtMost), {
    usage: { ...NO_TOKENS, promptTokens: counted.promptTokens },
    estimated: counted.estimated,
    target: targetName(target),
    outcome: 'completed',
  })
  const { promptTokens } = prepared.charge.usage
  // Before it is charged: an answer that turns out too large costs nothing.
  const around = aroundData(model.id, promptTokens)
  const written = await vectors.write({ values, dimensions, format, ...around, maxBytes: ANSWER_MOST_BYTES })
  return { body: [written], prepared }
}

interface Deliverable {
  readonly admitted: Admitted
  readonly target: ProviderTarget
  /** The most that the call is charged for. */
  readonly tokensAtMost: number
  readonly counted: CountedEmbeddings
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

/** Of an input that no tokenizer fits into the model's context: the model would be asked in vain. */
function farTooLong(index: number, count: number): Refusal {
  const which = count === 1 ? 'the text' : `the text at index ${index}`
  return refusal(
    'context_length_exceeded',
    `'input': ${which} is far longer than the model's context. Nothing was charged. Shorten it, or send it in parts.`,
    { param: 'input' },
  )
}

const REJECTED = refusal(
  'invalid_request',
  "The model does not accept this request. Nothing was charged. Check 'input', and leave out 'dimensions'.",
)

/** Where embeddings say more than what is said of every model. */
const OWN_WORDS: OwnWords = { too_large: TOO_LARGE, context_length: TOO_LONG, rejected: REJECTED }
