import { UpstreamFailure } from '../upstream/spec.ts'
import type { AttemptOutcome, ChatTarget } from './attempt.ts'
import { asFailure } from './failure.ts'
import { type OpenChatOptions, report, wasAsked } from './open.ts'

export interface WholeOptions extends OpenChatOptions {
  /** For one attempt at one target; the deadline of the whole call stands above it. */
  readonly attemptMs: number
  /** The work may be done twice without harm: after a deadline another target may be asked. */
  readonly isRepeatable: boolean
}

/** Sends the call to one target; rejects as the methods of `Upstream` do. */
type Ask<T> = (target: ChatTarget, signal: AbortSignal, connectMs: number) => Promise<T>

/**
 * Asks the targets in their order until one gives its whole answer, by the rules of `openChat`: only a failure that says so
 * lets the next one be asked, each is asked once, and the last one's failure is thrown, or the signal's reason after an
 * abort. A deadline or an abort ends the wait at once, whether or not the upstream heeds its signal.
 */
export async function askWhole<T>(
  targets: readonly ChatTarget[],
  ask: Ask<T>,
  options: WholeOptions,
): Promise<{ readonly target: ChatTarget; readonly answer: T }> {
  const { signal, deadlines, clock } = options
  const wholeDueMs = clock.monotonicMs() + deadlines.wholeMs
  let lastFailure: UpstreamFailure | null = null
  for (const [index, target] of targets.entries()) {
    if (wasAsked(targets, index)) continue
    signal.throwIfAborted()
    const startedMs = clock.monotonicMs()
    const over = (outcome: AttemptOutcome, failure: UpstreamFailure | null) =>
      report(options, target, outcome, failure, clock.monotonicMs() - startedMs)
    try {
      const answer = await attempt(target, ask, options, wholeDueMs)
      over('answered', null)
      return { target, answer }
    } catch (error) {
      if (signal.aborted) {
        over('cancelled', null)
        throw signal.reason
      }
      const failure = asFailure(error)
      over(failure.kind, failure)
      if (!failure.mayFailOver) throw failure
      lastFailure = failure
    }
  }
  throw lastFailure ?? new UpstreamFailure('unavailable', 'the model has no targets', false)
}

function attempt<T>(
  target: ChatTarget,
  ask: Ask<T>,
  { signal, deadlines, clock, attemptMs, isRepeatable }: WholeOptions,
  wholeDueMs: number,
): Promise<T> {
  const controller = new AbortController()
  const leftMs = wholeDueMs - clock.monotonicMs()
  return new Promise<T>((resolve, reject) => {
    const giveUp = (reason: unknown) => {
      done()
      controller.abort(reason)
      reject(reason)
    }
    const onAbort = () => giveUp(signal.reason)
    const cancelTimer = clock.after(Math.max(Math.min(attemptMs, leftMs), 0), () => {
      const isLast = leftMs <= attemptMs
      const limitMs = isLast ? deadlines.wholeMs : attemptMs
      giveUp(new UpstreamFailure('timeout', `no whole answer within ${limitMs} ms`, isRepeatable && !isLast))
    })
    signal.addEventListener('abort', onAbort, { once: true })
    const done = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    ask(target, controller.signal, deadlines.connectMs).finally(done).then(resolve, reject)
  })
}
