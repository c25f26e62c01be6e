/** The story of a call whose answer comes in one piece: admit, call the upstream, charge what is delivered, reply. */

import type { Served } from '../catalog/model.ts'
import type { Deadlines } from '../catalog/upstream.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { CallEnd, CallTrace, TracedCall } from '../kernel/telemetry.ts'
import type { Admitted } from '../money/admit.ts'
import type { Worst } from '../money/gates.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import { askWhole } from '../routing/whole.ts'
import { admitCall } from './admitCall.ts'
import type { PaidAnswer, PaidCaller } from './caller.ts'
import type { PaidDependencies } from './dependencies.ts'
import { explainFailure, type OwnWords, SUPERSEDED } from './refusals.ts'
import { routeOf } from './routeOf.ts'
import { endUncharged, tracedOf } from './trace.ts'

/** What is particular to one call of an endpoint. */
export interface WholeCall<T> {
  /** In the log, such as "a call for images". */
  readonly name: string
  readonly traced: Pick<TracedCall, 'operation' | 'dimensions' | 'images'>
  readonly ownWords: OwnWords
  /** Which deadline one attempt at one target has. */
  readonly attemptDeadline: keyof Pick<Deadlines, 'firstByteMs' | 'wholeMs'>
  /** The work may be done twice without harm: after a deadline another target may be asked. */
  readonly isRepeatable: boolean
  /** What the call may come to at the rate of the instant of its admission. */
  readonly worstAt: (admittedAtMs: number) => Worst
  /** Sends the call to one target. */
  readonly send: (target: ChatTarget, signal: AbortSignal, connectMs: number) => Promise<T>
  /**
   * Writes the answer, and charges what is delivered; what it throws before that costs the customer nothing. Null: another
   * process has taken the request over, and nothing was charged.
   */
  readonly deliver: (answer: T, admitted: Admitted, target: ChatTarget) => Promise<Delivery | null>
}

export interface Delivery extends PaidAnswer {
  /** What the trace is told of it. */
  readonly traced: Pick<CallEnd, 'usage' | 'images'>
}

/** Of an answer in one piece; what is none of chat's stays unset. */
const IN_ONE_PIECE = { isStreamed: false, maxTokens: null, temperature: null } as const

/**
 * Answers a call. A refusal means that nothing was charged. `signal` says that the client is gone: the upstream is cancelled, and
 * nothing is charged. The reply leaves after the charge is durable.
 */
export async function payWhole<T>(
  dependencies: PaidDependencies,
  caller: PaidCaller,
  served: Served,
  call: WholeCall<T>,
  signal: AbortSignal,
): Promise<Result<PaidAnswer>> {
  const { clock, log, metrics, telemetry } = dependencies
  const trace = telemetry?.begin({ ...tracedOf(caller, served), ...IN_ONE_PIECE, ...call.traced }) ?? null
  const admission = await admitCall(dependencies, caller, served, call.worstAt, trace)
  if (!admission.ok) return admission
  const {
    admission: { chargeId },
    hold,
  } = admission.value
  const admittedMonotonicMs = clock.monotonicMs()
  try {
    const delivery = await askAndDeliver(dependencies, served, call, admission.value, signal, trace)
    if (delivery === null) {
      endUncharged(trace, SUPERSEDED.code)
      return refused(SUPERSEDED)
    }
    const { body, costMicrocents, traced } = delivery
    trace?.end({ error: null, finishReason: null, costMicrocents, ...traced })
    metrics?.charged(served.model.id, 'completed', costMicrocents, clock.monotonicMs() - admittedMonotonicMs)
    return ok({ body, costMicrocents })
  } catch (error) {
    // Once it is charged it is spent; whatever failed then, the answer did not.
    if (hold.isOpen) hold.release()
    const why = explainFailure(log, { chargeId, name: call.name }, error, signal, call.ownWords)
    endUncharged(trace, signal.aborted ? 'cancelled' : why.code)
    return refused(why)
  }
}

async function askAndDeliver<T>(
  dependencies: PaidDependencies,
  served: Served,
  call: WholeCall<T>,
  admitted: Admitted,
  signal: AbortSignal,
  trace: CallTrace | null,
): Promise<Delivery | null> {
  const route = routeOf(dependencies, served, signal, trace)
  const { isRepeatable, attemptDeadline } = call
  const attemptMs = route.deadlines[attemptDeadline]
  const options = { ...route, attemptMs, isRepeatable }
  const { target, answer } = await askWhole(dependencies.targets(served), call.send, options)
  return call.deliver(answer, admitted, target)
}
