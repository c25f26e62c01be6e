/** The story of a call whose answer comes in one piece: admit, ask the targets, price what is delivered. */

import type { Admission } from '../../billing/admission/admission.ts'
import type { Admitted } from '../../billing/admission/admit.ts'
import type { WorstCase } from '../../billing/admission/gates.ts'
import type { Prepared } from '../../billing/charges/settle.ts'
import type { ResolvedModel } from '../../catalog/model.ts'
import type { Deadlines } from '../../catalog/provider.ts'
import type { MemoryReservation } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { ok, type Result } from '../../lib/result.ts'
import type { TracedCall } from '../../lib/telemetry.ts'
import type { ProviderTarget } from '../../providers/dialect/spec.ts'
import { AbortUntilWritten } from '../../routing/abortUntilWritten.ts'
import { askWhole } from '../../routing/askWhole.ts'
import type { InferenceCaller } from './caller.ts'
import type { InferenceDependencies } from './dependencies.ts'
import { admitCall, type Ending, type PaidCall, type PreparedCall, tracedOf } from './paidCall.ts'
import type { OwnWords } from './refusals.ts'

/** An answer in one piece. It may leave once `prepared` is committed. */
export interface InferenceAnswer {
  /** JSON, in pieces. */
  readonly body: readonly Uint8Array<ArrayBuffer>[]
  readonly prepared: PreparedCall
}

/** The parts of a call that differ between endpoints: its name, its deadline, its wording of failures. */
export interface WholeCall<T> {
  /** In the log, such as "a call for images". */
  readonly name: string
  readonly traced: Pick<TracedCall, 'operation' | 'dimensions' | 'images'>
  readonly ownWords: OwnWords
  /** Which deadline one attempt at one target has. */
  readonly attemptDeadline: keyof Pick<Deadlines, 'firstByteMs' | 'wholeMs'>
  /** The work may be done twice without harm: after a deadline another target may be asked. */
  readonly isRepeatable: boolean
  /** Holds a large answer. */
  readonly memory: MemoryReservation
  readonly admission: Admission
  /** The most that the call can cost, at the rate of its admission's instant. */
  readonly worst: WorstCase
  /** Sends the call to one target. `onWritten` is told when that has the whole request. */
  readonly send: (target: ProviderTarget, signal: AbortSignal, connectMs: number, onWritten: () => void) => Promise<T>
  /** Writes the answer and prices it. If it throws, the customer pays nothing. */
  readonly deliver: (answer: T, admitted: Admitted, target: ProviderTarget) => Promise<PreparedAnswer>
}

/** An answer that is ready, and not charged yet. */
export interface PreparedAnswer {
  readonly body: InferenceAnswer['body']
  readonly prepared: Prepared
}

/** Of an answer in one piece; the fields that only chat has stay unset. */
const IN_ONE_PIECE = { isStreamed: false, maxTokens: null, temperature: null } as const

const WHOLE: Ending = { error: null, finishReason: null }

/**
 * Makes the answer to a call. A refusal means that nothing was charged. The caller commits `prepared` before the answer
 * leaves. `signal` says that the client is gone: before the request was written to a target that cancels the call, and
 * nothing is charged; later the call runs to its end, and is charged (C3).
 */
export async function payWhole<T>(
  dependencies: InferenceDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  call: WholeCall<T>,
  signal: CallSignal,
): Promise<Result<InferenceAnswer>> {
  const { name, ownWords } = call
  const trace =
    dependencies.telemetry?.begin({ ...tracedOf(caller, resolved), ...IN_ONE_PIECE, ...call.traced }) ?? null
  const context = { dependencies, caller, resolved, signal, isStreamed: false, trace, name, ownWords }
  const admitted = await admitCall(context, call.admission, call.worst)
  if (!admitted.ok) return admitted
  const paid = admitted.value
  const abort = new AbortUntilWritten(signal)
  try {
    const { body, prepared } = await askAndDeliver(paid, call, abort)
    return ok({ body, prepared: paid.prepared(prepared, WHOLE) })
  } catch (error) {
    return paid.fail(error, abort.signal)
  } finally {
    abort.close()
  }
}

async function askAndDeliver<T>(paid: PaidCall, call: WholeCall<T>, abort: AbortUntilWritten): Promise<PreparedAnswer> {
  const { dependencies, resolved } = paid.context
  const route = paid.routeOptions(abort.signal)
  const { isRepeatable, attemptDeadline, memory } = call
  const options = { ...route, abort, attemptMs: route.deadlines[attemptDeadline], isRepeatable, memory }
  const { target, answer } = await askWhole(dependencies.providers.targetsOf(resolved.tier), call.send, options)
  return call.deliver(answer, paid.admitted, target)
}

/** Returns the bytes of an answer, which are written before it is priced. */
export function paidBodyOf({ body }: InferenceAnswer): InferenceAnswer['body'] {
  return body
}
