import type { Deadlines } from '../catalog/upstream.ts'
import { NoRoom, UpstreamFailure } from '../upstream/spec.ts'
import type { AttemptOutcome, ChatTarget } from './attempt.ts'
import { asFailure } from './failure.ts'
import { type ReportOptions, report } from './report.ts'
import { type AskAgain, inRounds, type Round, type RoundsOptions } from './rounds.ts'

export interface WholeOptions extends RoundsOptions, ReportOptions {
  readonly deadlines: Deadlines
  /** For one attempt at one target; the deadline of the whole call stands above it. */
  readonly attemptMs: number
  /** The work may be done twice without harm: after a deadline another target may be asked. */
  readonly isRepeatable: boolean
}

/** Sends the call to one target; rejects as the methods of `Upstream` do. */
type Ask<T> = (target: ChatTarget, signal: AbortSignal, connectMs: number) => Promise<T>

interface WholeAnswer<T> {
  readonly target: ChatTarget
  readonly answer: T
}

/**
 * Asks the targets until one gives its whole answer, by the rules of `openChat` but for hedging: there is no first token to
 * wait for. A deadline or an abort ends the wait at once, whether or not the upstream heeds its signal.
 */
export function askWhole<T>(
  targets: readonly ChatTarget[],
  ask: Ask<T>,
  options: WholeOptions,
): Promise<WholeAnswer<T>> {
  const { clock, deadlines } = options
  return inRounds(targets, new Turns(ask, options, clock.monotonicMs() + deadlines.wholeMs), options)
}

/** One target after the other. */
class Turns<T> implements Round<WholeAnswer<T>> {
  readonly wholeDueMs: number
  lastFailure: UpstreamFailure | null = null
  mayBeAskedAgain: AskAgain[] = []
  private readonly ask: Ask<T>
  private readonly options: WholeOptions

  constructor(ask: Ask<T>, options: WholeOptions, wholeDueMs: number) {
    this.ask = ask
    this.options = options
    this.wholeDueMs = wholeDueMs
  }

  async run(targets: readonly ChatTarget[]): Promise<WholeAnswer<T> | null> {
    this.mayBeAskedAgain = []
    for (const target of targets) {
      this.options.signal.throwIfAborted()
      const answer = await this.turn(target)
      if (answer !== null) return { target, answer }
    }
    return null
  }

  /** Null when the target failed in a way that allows for others. */
  private async turn(target: ChatTarget): Promise<T | null> {
    const { signal, clock, health } = this.options
    const startedMs = clock.monotonicMs()
    const asking = health.ask(target)
    const over = (outcome: AttemptOutcome, failure: UpstreamFailure | null) => {
      asking.ended(outcome)
      report(this.options, target, outcome, failure, clock.monotonicMs() - startedMs)
    }
    try {
      const answer = await this.attempt(target)
      asking.began()
      over('answered', null)
      return answer
    } catch (error) {
      if (signal.aborted) {
        over('cancelled', null)
        throw signal.reason
      }
      if (error instanceof NoRoom) {
        over('cancelled', null)
        throw error
      }
      const failure = asFailure(error)
      over(failure.kind, failure)
      if (!failure.mayFailOver) throw failure
      this.lastFailure = failure
      if (failure.mayAskAgain) {
        this.mayBeAskedAgain.push({ target, retryAfterSeconds: failure.retryAfterSeconds ?? 0 })
      }
      return null
    }
  }

  private attempt(target: ChatTarget): Promise<T> {
    const { signal, deadlines, clock, attemptMs, isRepeatable } = this.options
    const controller = new AbortController()
    const leftMs = this.wholeDueMs - clock.monotonicMs()
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
        giveUp(
          new UpstreamFailure('timeout', `no whole answer within ${limitMs} ms`, {
            mayFailOver: isRepeatable && !isLast,
          }),
        )
      })
      signal.addEventListener('abort', onAbort, { once: true })
      const done = () => {
        cancelTimer()
        signal.removeEventListener('abort', onAbort)
      }
      this.ask(target, controller.signal, deadlines.connectMs).finally(done).then(resolve, reject)
    })
  }
}
