import type { TierRouting } from '../catalog/model.ts'
import type { Deadlines } from '../catalog/upstream.ts'
import type { Clock } from '../kernel/time.ts'
import { type ChatCall, type ChatEvent, type ChatEvents, UpstreamFailure } from '../upstream/spec.ts'
import { Attempt, type AttemptOutcome, type ChatTarget } from './attempt.ts'
import type { Health } from './health.ts'
import { type ReportOptions, report } from './report.ts'
import type { AskAgain, Round } from './rounds.ts'

export interface RaceOptions extends ReportOptions {
  /** The client's: its abort cancels the upstream at once. */
  readonly signal: AbortSignal
  readonly deadlines: Deadlines
  readonly plan: TierRouting
  readonly health: Health
  readonly clock: Clock
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

/** What became of an attempt's beginning; null: it is time to hedge. */
type Began = { readonly attempt: Attempt; readonly target: ChatTarget; readonly error: unknown } | null

/**
 * Targets that are asked one after the other, and, where the plan hedges, a second one beside the first. At most one of them
 * is ever listened to: whoever begins to answer first. The others are cancelled then, and nothing of theirs is charged.
 */
export class Race implements Round<OpenedChat> {
  readonly wholeDueMs: number
  lastFailure: UpstreamFailure | null = null
  mayBeAskedAgain: AskAgain[] = []
  private readonly call: Omit<ChatCall, 'model'>
  private readonly options: RaceOptions

  constructor(call: Omit<ChatCall, 'model'>, options: RaceOptions, wholeDueMs: number) {
    this.call = call
    this.options = options
    this.wholeDueMs = wholeDueMs
  }

  /** Resolves with the answer that begins first. */
  run(targets: readonly ChatTarget[]): Promise<OpenedChat | null> {
    this.mayBeAskedAgain = []
    const hedges = this.options.plan.hedgeAfterMs !== null && targets.length > 1
    return hedges ? this.hedged(targets) : this.inTurn(targets)
  }

  private async inTurn(targets: readonly ChatTarget[]): Promise<OpenedChat | null> {
    for (const target of targets) {
      this.options.signal.throwIfAborted()
      const attempt = this.attempt(target)
      try {
        await attempt.begin()
        return opened(attempt, target)
      } catch (error) {
        this.note(target, error)
      }
    }
    return null
  }

  private async hedged(targets: readonly ChatTarget[]): Promise<OpenedChat | null> {
    const { signal, plan, clock } = this.options
    const waiting = [...targets]
    const running = new Map<Attempt, Promise<Began>>()
    let canHedge = true
    let cancelHedge = () => {}
    const next = () => {
      const target = waiting.shift()
      if (target === undefined) return
      signal.throwIfAborted()
      const attempt = this.attempt(target)
      running.set(attempt, this.begin(attempt, target))
    }
    try {
      for (next(); running.size > 0; ) {
        const hedging: Promise<Began>[] = []
        if (canHedge && waiting.length > 0) {
          hedging.push(
            new Promise((resolve) => {
              cancelHedge = clock.after(plan.hedgeAfterMs ?? 0, () => resolve(null))
            }),
          )
        }
        const began = await Promise.race([...running.values(), ...hedging])
        cancelHedge()
        if (began === null) {
          canHedge = false
          this.options.metrics?.hedged(waiting[0]?.upstream.name ?? '')
          next()
          continue
        }
        running.delete(began.attempt)
        if (began.error === null) return opened(began.attempt, began.target)
        this.note(began.target, began.error)
        if (running.size === 0) next()
      }
      return null
    } finally {
      cancelHedge()
      for (const other of running.keys()) other.cancel()
    }
  }

  /** Throws what ends the call: the client's abort, and a failure after which nobody else is to be asked. */
  private note(target: ChatTarget, error: unknown): void {
    if (this.options.signal.aborted || !(error instanceof UpstreamFailure) || !error.mayFailOver) throw error
    this.lastFailure = error
    if (error.mayAskAgain) this.mayBeAskedAgain.push({ target, retryAfterSeconds: error.retryAfterSeconds ?? 0 })
  }

  private attempt(target: ChatTarget): Attempt {
    const { signal, deadlines, clock, health } = this.options
    const asking = health.ask(target)
    const onOver = (outcome: AttemptOutcome, failure: UpstreamFailure | null, elapsedMs: number) => {
      asking.ended(outcome)
      report(this.options, target, outcome, failure, elapsedMs)
    }
    const onBegan = asking.began
    return new Attempt(target, this.call, { signal, deadlines, wholeDueMs: this.wholeDueMs, clock, onOver, onBegan })
  }

  private async begin(attempt: Attempt, target: ChatTarget): Promise<Began> {
    try {
      await attempt.begin()
      return { attempt, target, error: null }
    } catch (error) {
      return { attempt, target, error: error ?? new Error('a call failed for no reason') }
    }
  }
}

function opened(attempt: Attempt, target: ChatTarget): OpenedChat {
  return { target, events: attempt, cancel: () => attempt.cancel() }
}
