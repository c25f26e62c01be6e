import type { TierRouting } from '../catalog/model.ts'
import type { CallSignal } from '../lib/callSignal.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { ProviderFailure, type ProviderTarget } from '../providers/dialect/spec.ts'
import { backoffMs } from './backoff.ts'
import type { Health } from './health.ts'
import { orderOf } from './order.ts'

/** A target that is known not to be at work on the call, and the seconds that it asked us to wait. */
export interface AskAgain {
  readonly target: ProviderTarget
  readonly retryAfterSeconds: number
}

/** How targets are asked, all of them in one round. */
export interface Round<T> {
  /** When the call must be over, on the clock's monotonic scale. */
  readonly wholeDueMs: number
  /** Of the last target that was asked. */
  readonly lastFailure: ProviderFailure | null
  /** Of the last round. */
  readonly mayBeAskedAgain: readonly AskAgain[]
  /**
   * Null when all targets failed in a way that allows for others. Throws what ends the call: a failure after which nobody
   * else is to be asked, or the signal's reason after an abort.
   */
  run(targets: readonly ProviderTarget[]): Promise<T | null>
}

export interface RoundsOptions {
  readonly signal: CallSignal
  readonly routing: TierRouting
  readonly health: Health
  readonly clock: Clock
  /** From 0 up to, and without, 1. */
  readonly random: () => number
}

/**
 * Asks the targets in the order of the tier's routing, and those that may be asked again after a pause, where it says so. Throws
 * the last target's ProviderFailure when no round brings an answer, or what a round throws.
 */
export async function inRounds<T>(
  targets: readonly ProviderTarget[],
  round: Round<T>,
  { signal, routing, health, clock, random }: RoundsOptions,
): Promise<T> {
  // As long as a target may be starting, at most.
  const patientUntilMs = Math.min(clock.monotonicMs() + routing.coldStartMs, round.wholeDueMs)
  const nowMs = () => clock.monotonicMs()
  const look = {
    open: (target: ProviderTarget) => health.of(target).open,
    waitMs: (target: ProviderTarget) => health.of(target).breaker.waitMs(nowMs()),
    random,
  }
  let left = orderOf(eachOnce(targets), routing.choice, look)
  for (let number = 1; ; number += 1) {
    const answer = await round.run(left)
    if (answer !== null) return answer
    const failure = round.lastFailure ?? new ProviderFailure('unavailable', 'the model has no targets')
    const again = round.mayBeAskedAgain
    const waitMs = backoffMs(number, Math.min(...again.map(({ retryAfterSeconds }) => retryAfterSeconds)), random())
    // A target whose Retry-After is longer than this wait is not asked again in this call.
    const rested = again.filter(({ retryAfterSeconds }) => retryAfterSeconds * SECOND_MS <= waitMs)
    left = orderOf(
      rested.map(({ target }) => target),
      routing.choice,
      look,
    )
    const isInTime = nowMs() + waitMs < (number <= routing.retries ? round.wholeDueMs : patientUntilMs)
    if (left.length === 0 || !isInTime) throw routing.coldStartMs > 0 ? stillStarting(failure) : failure
    await pause(clock, waitMs, signal)
  }
}

/** Each target once, where it stands first. */
function eachOnce(targets: readonly ProviderTarget[]): readonly ProviderTarget[] {
  return targets.filter((_, index) => !wasAsked(targets, index))
}

/** A server that takes longer to start than a call may wait is there by the time that the client should come back. */
const COLD_START_RETRY_AFTER_SECONDS = 30

function stillStarting(failure: ProviderFailure): ProviderFailure {
  if (failure.kind !== 'unavailable' || failure.retryAfterSeconds !== null) return failure
  return new ProviderFailure('unavailable', failure.message, { retryAfterSeconds: COLD_START_RETRY_AFTER_SECONDS })
}

/** Rejects with the signal's reason when it is aborted meanwhile. */
function pause(clock: Clock, waitMs: number, signal: CallSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      cancel()
      reject(signal.reason)
    }
    const cancel = clock.after(waitMs, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
  })
}

/** Returns whether the target at `index` stands in the list before it, too. */
function wasAsked(targets: readonly ProviderTarget[], index: number): boolean {
  const target = targets[index]
  for (let earlier = 0; earlier < index; earlier += 1) {
    if (targets[earlier]?.provider === target?.provider && targets[earlier]?.model === target?.model) return true
  }
  return false
}
