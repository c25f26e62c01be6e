import type { Deadlines } from '../catalog/upstream.ts'
import type { Log } from '../kernel/log.ts'
import type { Clock } from '../kernel/time.ts'
import { type ChatCall, type ChatEvent, type ChatEvents, UpstreamFailure } from '../upstream/spec.ts'
import { Attempt, type AttemptOutcome, type ChatTarget } from './attempt.ts'

export interface RoutingMetrics {
  /** One attempt at one upstream is over. */
  attempt(upstream: string, outcome: AttemptOutcome, elapsedMs: number): void
}

export interface OpenChatOptions {
  /** The client's: its abort cancels the upstream at once. */
  readonly signal: AbortSignal
  readonly deadlines: Deadlines
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: RoutingMetrics
  /** Told of each attempt at a target when it is over. */
  readonly onAttempt?: (target: ChatTarget, outcome: AttemptOutcome, elapsedMs: number) => void
}

/** A call whose answer has begun. */
export interface OpenedChat {
  /** The one that answers. */
  readonly target: ChatTarget
  /**
   * The answer, under the silence and whole deadlines. Throws UpstreamFailure when it breaks off, or the signal's reason
   * after an abort. One `next()` at a time. Leaving it early (`return`, as `break` does) cancels the upstream.
   */
  readonly events: ChatEvents & AsyncIterable<ChatEvent>
  /** Cancels the upstream, if it is still at work; the events end. Harmless at any time. */
  cancel(): void
}

/**
 * Sends a chat call to the targets in their order, until one begins to answer: its first event is here. Only a failure
 * that says so (`mayFailOver`) lets the next target be asked, and each target is asked once. Throws the last target's
 * UpstreamFailure, or the signal's reason after an abort.
 */
export async function openChat(
  targets: readonly ChatTarget[],
  call: Omit<ChatCall, 'model'>,
  options: OpenChatOptions,
): Promise<OpenedChat> {
  const { signal, deadlines, clock } = options
  const wholeDueMs = clock.monotonicMs() + deadlines.wholeMs
  let lastFailure: UpstreamFailure | null = null
  for (const [index, target] of targets.entries()) {
    if (wasAsked(targets, index)) continue
    signal.throwIfAborted()
    const onOver = (outcome: AttemptOutcome, failure: UpstreamFailure | null, elapsedMs: number) =>
      report(options, target, outcome, failure, elapsedMs)
    const attempt = new Attempt(target, call, { signal, deadlines, wholeDueMs, clock, onOver })
    try {
      await attempt.begin()
      return { target, events: attempt, cancel: () => attempt.cancel() }
    } catch (error) {
      // After the client's abort nobody is left to answer.
      if (signal.aborted || !(error instanceof UpstreamFailure) || !error.mayFailOver) throw error
      lastFailure = error
    }
  }
  throw lastFailure ?? new UpstreamFailure('unavailable', 'the model has no targets', false)
}

/** Whether the target at `index` stands in the list before it, too. */
export function wasAsked(targets: readonly ChatTarget[], index: number): boolean {
  const target = targets[index]
  for (let earlier = 0; earlier < index; earlier += 1) {
    if (targets[earlier]?.upstream === target?.upstream && targets[earlier]?.model === target?.model) return true
  }
  return false
}

/** Tells metrics, the trace and the log how an attempt at a target ended. */
export function report(
  { log, metrics, onAttempt }: OpenChatOptions,
  target: ChatTarget,
  outcome: AttemptOutcome,
  failure: UpstreamFailure | null,
  elapsedMs: number,
): void {
  metrics?.attempt(target.upstream.name, outcome, elapsedMs)
  onAttempt?.(target, outcome, elapsedMs)
  if (failure === null) return
  const fields = { upstream: target.upstream.name, model: target.model, kind: failure.kind, detail: failure.message }
  if (failure.kind === 'misconfigured') {
    log.error(fields, 'an upstream refuses this gateway: check its base URL, its credential, and the model name')
  } else if (failure.kind === 'rejected' || failure.kind === 'context_length') {
    // The client's own mistakes, as many as it likes: no business of the operator's.
    log.debug(fields, 'an upstream did not take a request')
  } else log.warn(fields, 'a call to an upstream failed')
}
