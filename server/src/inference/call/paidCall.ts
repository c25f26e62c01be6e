/**
 * One paid call, whatever its endpoint: it begins, is admitted, goes to its targets, is prepared and committed, or fails.
 * Its hold and its trace end exactly once.
 */

import type { Admission } from '../../billing/admission/admission.ts'
import { type AdmissionContext, type Admitted, admit, begin } from '../../billing/admission/admit.ts'
import type { WorstCase } from '../../billing/admission/gates.ts'
import type { Charge } from '../../billing/charges/charge.ts'
import { commit, type Prepared } from '../../billing/charges/settle.ts'
import type { ResolvedModel } from '../../catalog/model.ts'
import { NO_PARTICIPANTS, type Participant } from '../../infra/postgres/database.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { type Refusal, TAKEN_OVER } from '../../lib/errors.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { CallTrace, TracedCall } from '../../lib/telemetry.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { ProviderTarget } from '../../providers/dialect/spec.ts'
import type { RouteOptions } from '../../routing/openChat.ts'
import type { InferenceCaller } from './caller.ts'
import type { InferenceDependencies } from './dependencies.ts'
import { explainFailure, LATE_KEPT, LATE_STREAM, LATE_WHOLE, type OwnWords, WITHDRAWN } from './refusals.ts'

/** A call before its admission. */
export interface CallContext {
  readonly dependencies: InferenceDependencies
  readonly caller: InferenceCaller
  readonly resolved: ResolvedModel
  /** Aborted once the client has left, unless the call outlives it (C3). */
  readonly signal: CallSignal
  /** A part of the answer may leave before the charge is durable. */
  readonly isStreamed: boolean
  readonly trace: CallTrace | null
  /** In the log, such as "a call for images". */
  readonly name: string
  readonly ownWords?: OwnWords
}

/** Begins a call: returns everything that its charge takes from the admission. Price and worst case follow from its instant. */
export function beginCall(
  money: AdmissionContext,
  { organizationId, keyId }: InferenceCaller,
  { model, tier }: ResolvedModel,
): Admission {
  const { chargeId, admittedAtMs } = begin(money)
  return {
    chargeId,
    admittedAtMs,
    organizationId,
    keyId,
    model: model.id,
    tier: tier.name,
    priceHash: tier.priceHash,
  }
}

/**
 * Calls `admit`, which answers at once in nearly every case. Reports a call that had to wait for its money to the metrics, and
 * one that is refused to the metrics and the trace.
 */
export function admitCall(
  context: CallContext,
  admission: Admission,
  worst: WorstCase,
): Result<PaidCall> | Promise<Result<PaidCall>> {
  const { clock, money, metrics } = context.dependencies
  const passed = admit(money, admission, worst, context.resolved.model)
  if (!(passed instanceof Promise)) return enter(context, passed)
  const startedMs = clock.monotonicMs()
  return passed.then((admitted) => {
    metrics?.waitedForMoney(clock.monotonicMs() - startedMs)
    return enter(context, admitted)
  })
}

function enter(context: CallContext, admitted: Result<Admitted>): Result<PaidCall> {
  if (admitted.ok) return ok(new PaidCall(context, admitted.value))
  const { code } = admitted.refusal
  context.dependencies.metrics?.refusedForMoney(code)
  endUncharged(context.trace, code)
  return admitted
}

/** How a call ended, for its trace. */
export interface Ending {
  /** A code of ours, `cancelled`, `cut` or `interrupted`; null for a whole answer. */
  readonly error: string | null
  readonly finishReason: string | null
}

/** A call that was admitted. It ends by {@link fail}, or by the commit of {@link prepared}. */
export class PaidCall {
  readonly context: CallContext
  readonly admitted: Admitted
  readonly admittedMonotonicMs: number

  constructor(context: CallContext, admitted: Admitted) {
    this.context = context
    this.admitted = admitted
    this.admittedMonotonicMs = context.dependencies.clock.monotonicMs()
  }

  /**
   * Returns how the call goes to the targets of its tier, by the catalog in force now. `signal` ends it; `atWork` is kept up
   * to date, as in `ChatRoundOptions`.
   */
  routeOptions(signal: CallSignal, atWork?: ProviderTarget[]): RouteOptions {
    const { dependencies, resolved, trace } = this.context
    const { catalog, health, random, clock, log, metrics } = dependencies
    return {
      signal,
      deadlines: catalog().deadlines,
      routing: resolved.tier.routing,
      health,
      random,
      clock,
      log,
      metrics,
      atWork,
      onAttempt:
        trace === null ? undefined : ({ provider, model }, ...how) => trace.attempt(provider.name, model, ...how),
    }
  }

  /** Ends a call that nothing is charged for, and returns the refusal for its client. `signal` says that the client is gone. */
  fail(error: unknown, signal: CallSignal = this.context.signal): Result<never> {
    this.admitted.hold.release()
    const refusal = this.explain(error, signal)
    endUncharged(this.context.trace, signal.aborted ? 'cancelled' : refusal.code)
    return refused(refusal)
  }

  /** Ends a call whose answer can't leave, by default because of a bug of ours: its money must not be held for ever. */
  drop(code: Refusal['code'] = 'internal_error'): void {
    this.admitted.hold.release()
    endUncharged(this.context.trace, code)
  }

  /** Returns why a call failed, in the client's words. */
  explain(error: unknown, signal: CallSignal = this.context.signal): Refusal {
    const { dependencies, name, ownWords } = this.context
    const { chargeId } = this.admitted.admission
    return explainFailure(dependencies.log, { chargeId, name }, error, signal, ownWords)
  }

  /** Returns the call with its price, to be committed with the answer. */
  prepared(prepared: Prepared, ending: Ending): PreparedCall {
    return new PreparedCall(this, prepared, ending)
  }
}

/** The refusal that leaves in place of an answer, or of its last part. */
export interface Unanswered {
  readonly refusal: Refusal
  /** True when the charge stands all the same. */
  readonly isCharged: boolean
}

/** A call whose answer and price are known. Nothing is charged before {@link commit}; its hold is open until then. */
export class PreparedCall {
  private readonly call: PaidCall
  private readonly prepared: Prepared
  private readonly ending: Ending
  private outcome: Promise<Unanswered | null> | null = null

  constructor(call: PaidCall, prepared: Prepared, ending: Ending) {
    this.call = call
    this.prepared = prepared
    this.ending = ending
  }

  /** The usage that is charged. */
  get usage(): TokenUsage {
    return this.prepared.charge.usage
  }

  get costMicrocents(): bigint {
    return this.prepared.charge.costMicrocents
  }

  /**
   * Charges the call; `participants` keep its answer in the same transaction. Resolves to null when the charge is durable:
   * then the answer may leave whole. Resolves to what the client is told instead at the charge's deadline (E14), or where
   * another process has taken the request over. Charges once: later calls get the outcome of the first.
   */
  commit(participants: readonly Participant[] = NO_PARTICIPANTS): Promise<Unanswered | null> {
    this.outcome ??= this.post(participants)
    return this.outcome
  }

  /** Gives the money back where nobody has committed the call, and ends its trace with `code`: its answer can't leave. */
  release(code: Refusal['code']): void {
    if (this.outcome === null) this.call.drop(code)
  }

  private async post(participants: readonly Participant[]): Promise<Unanswered | null> {
    try {
      const unanswered = await this.charge(participants)
      this.endTrace(unanswered)
      return unanswered
    } catch (error) {
      this.call.drop()
      throw error
    }
  }

  private async charge(participants: readonly Participant[]): Promise<Unanswered | null> {
    const { dependencies, caller, signal, isStreamed } = this.call.context
    const { key } = caller
    const isGone = () => signal.aborted || caller.isClientGone()
    const posted = await commit(dependencies.money, this.prepared, participants, () => !isStreamed && !isGone())
    switch (posted.kind) {
      case 'posted':
        this.onPosted()
        return null
      case 'superseded':
        return { refusal: TAKEN_OVER, isCharged: false }
      case 'withdrawn':
        key?.discard()
        return { refusal: WITHDRAWN, isCharged: false }
      case 'late':
        key?.awaitOutcome(posted.isPosted)
        void posted.isPosted.then((isPosted) => isPosted && this.onPosted())
        return { refusal: lateRefusal(participants.length > 0, isStreamed), isCharged: true }
    }
  }

  /** The charge is durable. That may be long after the deadline. */
  private onPosted(): void {
    const { clock, log, metrics } = this.call.context.dependencies
    const { charge } = this.prepared
    metrics?.charged(charge, clock.monotonicMs() - this.call.admittedMonotonicMs)
    if (charge.listMicrocents !== undefined) {
      const { chargeId, organizationId, target, listMicrocents, costMicrocents } = charge
      // The operator bears the difference (C10).
      const unpaidMicrocents = String(listMicrocents - costMicrocents)
      log.warn(
        { chargeId, organizationId, target, unpaidMicrocents },
        'a call cost more than could be held for it; the difference is not charged',
      )
    }
  }

  private endTrace(unanswered: Unanswered | null): void {
    const { trace, signal, isStreamed } = this.call.context
    if (trace === null) return
    if (unanswered !== null && !isStreamed) {
      endUncharged(trace, signal.aborted ? 'cancelled' : unanswered.refusal.code)
      return
    }
    const { error, finishReason } = this.ending
    const isCharged = unanswered === null || unanswered.isCharged
    const told = isCharged ? toldOf(this.prepared.charge) : { usage: null, costMicrocents: null }
    trace.end({ error: unanswered?.refusal.code ?? error, finishReason, ...told })
  }
}

function lateRefusal(isKept: boolean, isStreamed: boolean): Refusal {
  if (isKept) return LATE_KEPT
  return isStreamed ? LATE_STREAM : LATE_WHOLE
}

/** Returns the part of a charge that its trace shows: the images or the usage, and the cost in micro-cents. */
function toldOf({ usage, images, costMicrocents }: Charge) {
  return images === undefined ? { usage, costMicrocents } : { usage: null, costMicrocents, images: images.count }
}

/** Returns the caller and the model of a call as its trace names them. */
export function tracedOf(
  { organizationId, keyId, traceparent }: InferenceCaller,
  { model, tier }: ResolvedModel,
): Pick<TracedCall, 'model' | 'tier' | 'organizationId' | 'keyId' | 'traceparent'> {
  return { model: model.id, tier: tier.name, organizationId, keyId, traceparent }
}

/** Ends the trace of a call that nothing is charged for. `error` is a code of ours, or `cancelled`. */
function endUncharged(trace: CallTrace | null, error: string): void {
  trace?.end({ error, finishReason: null, usage: null, costMicrocents: null })
}

/** Returns a target as a charge names it, for the operator. */
export function targetName({ provider, model }: ProviderTarget): string {
  return `${provider.name}/${model}`
}
