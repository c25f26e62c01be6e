import type { Deadlines } from '../catalog/provider.ts'
import type { MemoryReservation } from '../lib/byteBudget.ts'
import { NoMemoryLeft, ProviderFailure, type ProviderTarget } from '../providers/dialect/spec.ts'
import type { AbortUntilWritten, CommittingAttempt } from './abortUntilWritten.ts'
import { askUntil } from './askUntil.ts'
import type { AttemptOutcome } from './attempt.ts'
import { asFailure } from './failure.ts'
import { type ReportOptions, report } from './report.ts'
import { type AskAgain, inRounds, type Round, type RoundsOptions } from './rounds.ts'

export interface WholeOptions extends Omit<RoundsOptions, 'signal'>, ReportOptions {
  readonly abort: AbortUntilWritten
  readonly deadlines: Deadlines
  /** For one attempt at one target; the deadline of the whole call stands above it. */
  readonly attemptMs: number
  /** The work may be done twice without harm: after a deadline another target may be asked. */
  readonly isRepeatable: boolean
  /** Of the call's large answer. */
  readonly memory: Pick<MemoryReservation, 'waits'>
}

/** Sends the call to one target; rejects, and tells `onWritten`, as the methods of `Provider` do. */
type Ask<T> = (target: ProviderTarget, signal: AbortSignal, connectMs: number, onWritten: () => void) => Promise<T>

interface WholeAnswer<T> {
  readonly target: ProviderTarget
  readonly answer: T
}

/**
 * Asks the targets until one gives its whole answer, by the rules of `openChat` but for hedging: there is no first token to
 * wait for. A deadline, and a hang-up that ends the call, ends the wait at once, whether or not the provider heeds its signal.
 * After such a hang-up it throws the reason of the signal of `abort`.
 */
export function askWhole<T>(
  targets: readonly ProviderTarget[],
  ask: Ask<T>,
  options: WholeOptions,
): Promise<WholeAnswer<T>> {
  const { clock, deadlines, abort } = options
  const round = new WholeRound(ask, options, clock.monotonicMs() + deadlines.wholeMs)
  return inRounds(targets, round, { ...options, signal: abort.signal })
}

/** One target after the other. */
class WholeRound<T> implements Round<WholeAnswer<T>> {
  readonly wholeDueMs: number
  lastFailure: ProviderFailure | null = null
  mayBeAskedAgain: AskAgain[] = []
  private readonly ask: Ask<T>
  private readonly options: WholeOptions

  constructor(ask: Ask<T>, options: WholeOptions, wholeDueMs: number) {
    this.ask = ask
    this.options = options
    this.wholeDueMs = wholeDueMs
  }

  async run(targets: readonly ProviderTarget[]): Promise<WholeAnswer<T> | null> {
    this.mayBeAskedAgain = []
    for (const target of targets) {
      this.options.abort.signal.throwIfAborted()
      const answer = await this.turn(target)
      if (answer !== null) return { target, answer }
    }
    return null
  }

  /** Null when the target failed in a way that allows for others. */
  private async turn(target: ProviderTarget): Promise<T | null> {
    const { abort, clock, health } = this.options
    const { signal } = abort
    const bound = abort.attempt()
    const startedMs = clock.monotonicMs()
    const asking = health.ask(target)
    const over = (outcome: AttemptOutcome, failure: ProviderFailure | null) => {
      asking.ended(outcome)
      report(this.options, target, outcome, failure, clock.monotonicMs() - startedMs)
    }
    try {
      const answer = await this.attempt(target, bound)
      asking.began()
      over('answered', null)
      return answer
    } catch (error) {
      if (signal.aborted) {
        over('cancelled', null)
        throw signal.reason
      }
      if (error instanceof NoMemoryLeft) {
        over('cancelled', null)
        throw error
      }
      const failure = asFailure(error)
      over(failure.kind, failure)
      if (!failure.mayFailOver) throw failure
      this.lastFailure = failure
      if (failure.kind !== 'timeout') bound.failed()
      if (failure.mayAskAgain) {
        this.mayBeAskedAgain.push({ target, retryAfterSeconds: failure.retryAfterSeconds ?? 0 })
      }
      return null
    }
  }

  private attempt(target: ProviderTarget, { written }: CommittingAttempt): Promise<T> {
    const { abort, deadlines, clock, attemptMs, isRepeatable, memory } = this.options
    const leftMs = this.wholeDueMs - clock.monotonicMs()
    const isLast = leftMs <= attemptMs
    const waitsBefore = memory.waits
    const late = () => {
      // The target has begun to answer, and its answer waited for us: it is not to blame, and another would wait as well.
      if (memory.waits > waitsBefore) return new NoMemoryLeft()
      return new ProviderFailure('timeout', `no whole answer within ${isLast ? deadlines.wholeMs : attemptMs} ms`, {
        mayFailOver: isRepeatable && !isLast,
      })
    }
    return askUntil({ clock, signal: abort.signal, limitMs: Math.min(attemptMs, leftMs), late }, (signal) =>
      this.ask(target, signal, deadlines.connectMs, written),
    )
  }
}
