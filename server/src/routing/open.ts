import { type Clock, SECOND_MS } from '../kernel/time.ts'
import { type ChatCall, UpstreamFailure } from '../upstream/spec.ts'
import type { ChatTarget } from './attempt.ts'
import { backoffMs } from './backoff.ts'
import { orderOf } from './order.ts'
import { type OpenedChat, Race, type RaceOptions } from './race.ts'

export interface OpenChatOptions extends RaceOptions {
  /** From 0 up to, and without, 1. */
  readonly random: () => number
}

/**
 * Sends a chat call to the targets, in the order of the plan, until one begins to answer: its first event is here. Only a
 * failure that says so (`mayFailOver`) lets another target be asked, and only one that says `mayAskAgain` the same one once
 * more. Throws the last target's UpstreamFailure, or the signal's reason after an abort.
 */
export async function openChat(
  targets: readonly ChatTarget[],
  call: Omit<ChatCall, 'model'>,
  options: OpenChatOptions,
): Promise<OpenedChat> {
  const { signal, deadlines, clock, plan, health, random } = options
  const beganMs = clock.monotonicMs()
  const race = new Race(call, options, beganMs + deadlines.wholeMs)
  // As long as a target may be starting, at most.
  const patientUntilMs = beganMs + Math.min(plan.coldStartMs, deadlines.wholeMs)
  const nowMs = () => clock.monotonicMs()
  const look = {
    open: (target: ChatTarget) => health.of(target).open,
    waitMs: (target: ChatTarget) => health.of(target).breaker.waitMs(nowMs()),
    random,
  }
  let left = orderOf(eachOnce(targets), plan.choice, look)
  for (let round = 1; ; round += 1) {
    const opened = await race.run(left)
    if (opened !== null) return opened
    const failure = race.lastFailure ?? new UpstreamFailure('unavailable', 'the model has no targets', false)
    const again = race.mayBeAskedAgain
    const waitMs = backoffMs(round, Math.min(...again.map(({ retryAfterSeconds }) => retryAfterSeconds)), random())
    // Who asked for more than that is left alone for the rest of the call.
    const rested = again.filter(({ retryAfterSeconds }) => retryAfterSeconds * SECOND_MS <= waitMs)
    left = orderOf(
      rested.map(({ target }) => target),
      plan.choice,
      look,
    )
    const isInTime = nowMs() + waitMs < (round <= plan.retries ? race.wholeDueMs : patientUntilMs)
    if (left.length === 0 || !isInTime) throw plan.coldStartMs > 0 ? stillStarting(failure) : failure
    await pause(clock, waitMs, signal)
  }
}

/** Each target once, where it stands first. */
function eachOnce(targets: readonly ChatTarget[]): readonly ChatTarget[] {
  return targets.filter((_, index) => !wasAsked(targets, index))
}

/** A server that takes longer to start than a call may wait is there by the time that the client should come back. */
const COLD_START_RETRY_AFTER_SECONDS = 30

function stillStarting(failure: UpstreamFailure): UpstreamFailure {
  if (failure.kind !== 'unavailable' || failure.retryAfterSeconds !== null) return failure
  return new UpstreamFailure('unavailable', failure.message, false, COLD_START_RETRY_AFTER_SECONDS)
}

/** Rejects with the signal's reason when it is aborted meanwhile. */
function pause(clock: Clock, waitMs: number, signal: AbortSignal): Promise<void> {
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
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Whether the target at `index` stands in the list before it, too. */
function wasAsked(targets: readonly ChatTarget[], index: number): boolean {
  const target = targets[index]
  for (let earlier = 0; earlier < index; earlier += 1) {
    if (targets[earlier]?.upstream === target?.upstream && targets[earlier]?.model === target?.model) return true
  }
  return false
}
