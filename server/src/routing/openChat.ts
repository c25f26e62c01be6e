import type { TierRouting } from '../catalog/model.ts'
import type { Deadlines } from '../catalog/provider.ts'
import type { CallSignal } from '../lib/callSignal.ts'
import type { Clock } from '../lib/time.ts'
import {
  type ChatCall,
  type ChatEvent,
  type ChatEvents,
  ProviderFailure,
  type ProviderTarget,
} from '../providers/dialect/spec.ts'
import { type AttemptOutcome, TargetAttempt } from './attempt.ts'
import { isOfRequest } from './failure.ts'
import type { Health } from './health.ts'
import { type ReportOptions, report } from './report.ts'
import { type AskAgain, inRounds, type Round, type RoundsOptions } from './rounds.ts'

export interface ChatRoundOptions extends ReportOptions {
  /** The client's: its abort cancels the provider at once. */
  readonly signal: CallSignal
  readonly deadlines: Deadlines
  readonly routing: TierRouting
  readonly health: Health
  readonly clock: Clock
  /** Kept up to date: the targets that were sent the whole request and have not refused it. */
  readonly atWork?: ProviderTarget[] | undefined
}

/** A call whose answer has begun. */
export interface OpenedChat {
  /** The one that answers. */
  readonly target: ProviderTarget
  /**
   * The answer, under the silence and whole deadlines. Throws ProviderFailure when it breaks off, or the signal's reason
   * after an abort. One `next()` at a time. Leaving it early (`return`, as `break` does) cancels the provider.
   */
  readonly events: ChatEvents & AsyncIterable<ChatEvent>
  /** Cancels the provider, if it is still at work; the events end. Harmless at any time. */
  cancel(): void
}

export type RouteOptions = ChatRoundOptions & RoundsOptions

/**
 * Sends a chat call to the targets, in the order of the tier's routing, until one begins to answer: its first event is here. Only a
 * failure that says so (`mayFailOver`) lets another target be asked, and only one that says `mayAskAgain` the same one once
 * more. Throws the last target's ProviderFailure, or the signal's reason after an abort.
 */
export function openChat(
  targets: readonly ProviderTarget[],
  call: Omit<ChatCall, 'model'>,
  options: RouteOptions,
): Promise<OpenedChat> {
  const { deadlines, clock } = options
  return inRounds(targets, new ChatRound(call, options, clock.monotonicMs() + deadlines.wholeMs), options)
}

/** The beginning of an attempt, or the error of it; null: it is time to hedge. */
type Began = { readonly attempt: TargetAttempt; readonly target: ProviderTarget; readonly error: unknown } | null

/**
 * Targets that are asked one after the other, and, where the tier's routing hedges, a second one beside the first.
 * At most one of them is ever listened to: the first that begins to answer. The others are cancelled then, and
 * nothing of theirs is charged.
 */
class ChatRound implements Round<OpenedChat> {
  readonly wholeDueMs: number
  lastFailure: ProviderFailure | null = null
  mayBeAskedAgain: AskAgain[] = []
  private readonly call: Omit<ChatCall, 'model'>
  private readonly options: ChatRoundOptions

  constructor(call: Omit<ChatCall, 'model'>, options: ChatRoundOptions, wholeDueMs: number) {
    this.call = call
    this.options = options
    this.wholeDueMs = wholeDueMs
  }

  /** Resolves with the answer that begins first. Where two are asked, the failure of one leaves the call to the other. */
  run(targets: readonly ProviderTarget[]): Promise<OpenedChat | null> {
    this.mayBeAskedAgain = []
    const hedges = this.options.routing.hedgeAfterMs !== null && targets.length > 1
    return hedges ? this.hedged(targets) : this.inTurn(targets)
  }

  private async inTurn(targets: readonly ProviderTarget[]): Promise<OpenedChat | null> {
    for (const target of targets) {
      this.options.signal.throwIfAborted()
      const attempt = this.attempt(target)
      try {
        await attempt.begin()
        return opened(attempt, target)
      } catch (error) {
        const last = this.note(target, error)
        if (last !== null) throw last
      }
    }
    return null
  }

  private async hedged(targets: readonly ProviderTarget[]): Promise<OpenedChat | null> {
    const { signal, routing, clock } = this.options
    const waiting = [...targets]
    const running = new Map<TargetAttempt, Promise<Began>>()
    let last: ProviderFailure | null = null
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
              cancelHedge = clock.after(routing.hedgeAfterMs ?? 0, () => resolve(null))
            }),
          )
        }
        const began = await Promise.race([...running.values(), ...hedging])
        cancelHedge()
        if (began === null) {
          canHedge = false
          this.options.metrics?.hedged(waiting[0]?.provider.name ?? '')
          next()
          continue
        }
        running.delete(began.attempt)
        if (began.error === null) return opened(began.attempt, began.target)
        const failure = this.note(began.target, began.error)
        if (failure !== null) {
          waiting.length = 0
          last = last !== null && isOfRequest(last) ? last : failure
        }
        if (running.size > 0) continue
        if (last !== null) throw last
        next()
      }
      return null
    } finally {
      cancelHedge()
      for (const other of running.keys()) other.cancel()
    }
  }

  /** Returns the failure, if nobody else is to be asked after it; else null. Throws `error` where the client has left. */
  private note(target: ProviderTarget, error: unknown): ProviderFailure | null {
    if (this.options.signal.aborted || !(error instanceof ProviderFailure)) throw error
    if (!error.mayFailOver) return error
    this.lastFailure = error
    if (error.mayAskAgain) this.mayBeAskedAgain.push({ target, retryAfterSeconds: error.retryAfterSeconds ?? 0 })
    return null
  }

  private attempt(target: ProviderTarget): TargetAttempt {
    const { signal, deadlines, clock, health, atWork } = this.options
    const asking = health.ask(target)
    const onOver = (outcome: AttemptOutcome, failure: ProviderFailure | null, elapsedMs: number) => {
      asking.ended(outcome)
      // A target that is late may still be at work; every other failure says that it is not.
      if (failure !== null && failure.kind !== 'timeout') leaveOut(target, atWork)
      report(this.options, target, outcome, failure, elapsedMs)
    }
    const onWritten = () => {
      if (atWork?.includes(target) === false) atWork.push(target)
    }
    const { wholeDueMs } = this
    const options = { signal, deadlines, wholeDueMs, clock, onWritten, onBegan: asking.began, onOver }
    return new TargetAttempt(target, this.call, options)
  }

  private async begin(attempt: TargetAttempt, target: ProviderTarget): Promise<Began> {
    try {
      await attempt.begin()
      return { attempt, target, error: null }
    } catch (error) {
      return { attempt, target, error: error ?? new Error('a call failed for no reason') }
    }
  }
}

function opened(attempt: TargetAttempt, target: ProviderTarget): OpenedChat {
  return { target, events: attempt, cancel: () => attempt.cancel() }
}

function leaveOut(target: ProviderTarget, targets: ProviderTarget[] | undefined): void {
  const index = targets?.indexOf(target) ?? -1
  if (index >= 0) targets?.splice(index, 1)
}
