import type { Deadlines } from '../catalog/provider.ts'
import { type CallSignal, OwnSignal } from '../lib/callSignal.ts'
import { type Clock, nextTurn, SECOND_MS, sleep } from '../lib/time.ts'
import { Watchdog } from '../lib/watchdog.ts'
import {
  type ChatCall,
  type ChatEvent,
  type ChatEvents,
  ProviderFailure,
  type ProviderFailureKind,
  type ProviderTarget,
} from '../providers/dialect/spec.ts'
import { asFailure } from './failure.ts'

/** How an attempt ended; `cancelled` is our own doing: the client left, or we had enough. */
export type AttemptOutcome = 'answered' | 'cancelled' | ProviderFailureKind

export interface AttemptOptions {
  /** The caller's: its abort ends the attempt at once, with the signal's reason. */
  readonly signal: CallSignal
  readonly deadlines: Deadlines
  /** When the whole call must be over, on the clock's monotonic scale. */
  readonly wholeDueMs: number
  readonly clock: Clock
  /** Told when the whole request was written to the target, perhaps more than once. */
  readonly onWritten: () => void
  /** Called once, when the target's answer has begun. */
  readonly onBegan: () => void
  /** Called once, when the attempt is over. */
  readonly onOver: (outcome: AttemptOutcome, failure: ProviderFailure | null, elapsedMs: number) => void
}

type Next = IteratorResult<ChatEvent, unknown>
const END: Next = { done: true, value: undefined }

/** Of what is unread when the client leaves, so much is read, for so long at most. */
const LEFT_MOST_EVENTS = 100_000
const LEFT_MOST_MS = SECOND_MS

/** How what is unread is looked for: it is all when `emptyPolls` in a row find nothing. */
interface Polls {
  readonly emptyPolls: number
  wait(clock: Clock): Promise<void>
}

/** A client that is behind leaves answers unread in the buffers of this machine and the provider's, up to some megabytes. */
const BEHIND: Polls = { emptyPolls: 5, wait: (clock) => sleep(clock, 1) }

/**
 * A client that keeps up leaves what came to the socket since it was last read. A provider that is read on while it generates would
 * be paid for what it says meanwhile.
 */
const KEEPING_UP: Polls = { emptyPolls: 3, wait: nextTurn }

const NOT_TAKEN = 'The answer was not taken in the time that a call may last. Read it faster, or ask for less.'

const CANCELLED = new DOMException('The answer is not wanted any more.', 'AbortError')

/**
 * One call to one target under its deadlines: first `begin`, then the events. One promise is waited for at a time; a
 * deadline or an abort rejects it at once, whether or not the provider heeds its signal.
 */
export class TargetAttempt implements ChatEvents {
  private readonly target: ProviderTarget
  private readonly call: Omit<ChatCall, 'model'>
  private readonly options: AttemptOptions
  /** Ends the provider's work. */
  private readonly ending = new OwnSignal()
  private readonly watchdog: Watchdog
  private readonly startedMs: number
  private phase: 'waiting' | 'answering' | 'over' = 'waiting'
  private inner: ChatEvents | null = null
  private first: Next | null = null
  /** Why it is over, where that is to be thrown; the reason of an abort may be anything. */
  private thrown: { readonly reason: unknown } | null = null
  /** The callback that waits for the next event without a promise; null: none does. */
  private waiting: (() => void) | null = null
  private pending: { resolve(result: Next): void; reject(reason: unknown): void } | null = null
  /** The events that nobody had read when the client left. */
  private readonly unread: ChatEvent[] = []
  private leaving: Promise<readonly ChatEvent[]> | null = null

  constructor(target: ProviderTarget, call: Omit<ChatCall, 'model'>, options: AttemptOptions) {
    this.target = target
    this.call = call
    this.options = options
    this.startedMs = options.clock.monotonicMs()
    this.watchdog = new Watchdog(options.clock, this.onDue)
    options.signal.addEventListener('abort', this.onAbort)
  }

  /** Sends the call; resolves when the first event of its answer is here. Rejects as the events do. */
  async begin(): Promise<void> {
    const { firstByteMs, silenceMs } = this.options.deadlines
    // Looked at as early as any later deadline may be, so that one timer serves the whole answer.
    this.dueIn(Math.min(firstByteMs, silenceMs), this.startedMs)
    const first = await this.guard(this.start())
    if (first.done === true) throw this.fail(new ProviderFailure('faulty', 'the answer is empty'))
    this.phase = 'answering'
    this.first = first
    this.options.onBegan()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Next> {
    if (this.thrown !== null) return Promise.reject(this.thrown.reason)
    const first = this.first
    if (first !== null) {
      this.first = null
      return Promise.resolve(first)
    }
    if (this.inner === null || this.phase === 'over') return Promise.resolve(END)
    // Silence counts only while somebody waits: a slow reader is not the provider's fault.
    this.dueIn(this.options.deadlines.silenceMs, this.options.clock.monotonicMs())
    return this.guard(this.inner.next())
  }

  ready(): ChatEvent | undefined {
    if (this.phase !== 'answering') return undefined
    const first = this.first
    if (first === null) return this.inner?.ready?.()
    this.first = null
    return first.done === true ? undefined : first.value
  }

  whenReady(callback: () => void): boolean {
    if (this.phase !== 'answering' || this.first !== null) return false
    if (this.inner?.whenReady?.(this.onArrival) !== true) return false
    this.waiting = callback
    this.dueIn(this.options.deadlines.silenceMs, this.options.clock.monotonicMs())
    return true
  }

  return(): Promise<Next> {
    this.cancel()
    return Promise.resolve(END)
  }

  left(): Promise<readonly ChatEvent[]> {
    return this.leaving ?? Promise.resolve([])
  }

  /** Stops the provider's work, if it is still at it. The events are at their end then. */
  cancel(): void {
    if (!this.over('cancelled', null)) return
    this.ending.abort(CANCELLED)
    this.pending?.resolve(END)
    this.wake()
  }

  private async start(): Promise<Next> {
    const { provider, model } = this.target
    const answer = await provider.chat(
      { ...this.call, model },
      this.ending,
      this.options.deadlines.connectMs,
      this.options.onWritten,
    )
    this.inner = answer[Symbol.asyncIterator]()
    return this.inner.next()
  }

  private guard(work: Promise<Next>): Promise<Next> {
    return new Promise((resolve, reject) => {
      this.pending = { resolve, reject }
      work.then(this.onNext, this.onFailed)
    })
  }

  private readonly onNext = (result: Next): void => {
    if (this.phase === 'over') {
      if (this.leaving !== null && result.done !== true) this.unread.push(result.value)
      return
    }
    if (result.done !== true) this.watchdog.due(this.options.wholeDueMs)
    // An end before any event is a failure, which `begin` throws.
    else if (this.phase === 'answering') this.over('answered', null)
    const pending = this.pending
    this.pending = null
    pending?.resolve(result)
  }

  private readonly onArrival = (): void => {
    if (this.phase === 'over') return
    this.watchdog.due(this.options.wholeDueMs)
    this.wake()
  }

  private wake(): void {
    const { waiting } = this
    this.waiting = null
    waiting?.()
  }

  private readonly onFailed = (error: unknown): void => {
    // Once it is over this is the echo of our own abort, and the promise is settled.
    if (this.phase !== 'over') this.fail(asFailure(error))
  }

  /** Sets the next deadline; the whole call's stands above it. */
  private dueIn(delayMs: number, fromMs: number): void {
    this.watchdog.due(Math.min(fromMs + delayMs, this.options.wholeDueMs))
  }

  private readonly onDue = (): void => {
    const { clock, wholeDueMs, deadlines } = this.options
    const nowMs = clock.monotonicMs()
    // By the sum that the deadline is: the difference may be less where the sum is met.
    const isEarly = nowMs < this.startedMs + deadlines.firstByteMs
    if (nowMs >= wholeDueMs) this.expireWhole()
    else if (this.phase !== 'answering' && isEarly) this.dueIn(deadlines.firstByteMs, this.startedMs)
    else if (this.phase !== 'answering') this.expire(`no answer began within ${deadlines.firstByteMs} ms`, true)
    else if (this.pending !== null || this.waiting !== null) this.expire(`silent for ${deadlines.silenceMs} ms`, false)
    else this.watchdog.due(wholeDueMs)
  }

  /** A client that has not taken what came has only itself to blame: nothing is said of the target. */
  private expireWhole(): void {
    const { wholeMs } = this.options.deadlines
    const isBehind = this.phase === 'answering' && this.pending === null && this.waiting === null
    if (!isBehind) this.expire(`no whole answer within ${wholeMs} ms`, false)
    else {
      const detail = `its client was behind after ${wholeMs} ms`
      this.fail(new ProviderFailure('timeout', detail, { mayFailOver: false, publicMessage: NOT_TAKEN }), 'cancelled')
    }
  }

  private expire(detail: string, mayFailOver: boolean): void {
    this.fail(new ProviderFailure('timeout', detail, { mayFailOver }))
  }

  private readonly onAbort = (): void => {
    const { inner, phase } = this
    const keepsUp = this.pending !== null || this.waiting !== null
    if (!this.over('cancelled', null)) return
    const { reason } = this.options.signal
    const stop = () => this.ending.abort(reason)
    if (inner?.ready === undefined || phase !== 'answering') stop()
    else this.leaving = this.readLeft(inner, keepsUp ? KEEPING_UP : BEHIND).finally(stop)
    this.tell(reason)
  }

  /** Reads what the provider has sent already, before its work is stopped. */
  private async readLeft(inner: ChatEvents, polls: Polls): Promise<readonly ChatEvent[]> {
    const { clock } = this.options
    const { unread } = this
    if (this.first?.done === false) unread.push(this.first.value)
    const endsAtMs = clock.monotonicMs() + LEFT_MOST_MS
    let seen = 0
    for (let empty = 0; empty < polls.emptyPolls && clock.monotonicMs() < endsAtMs; ) {
      for (let event = inner.ready?.(); event !== undefined; event = inner.ready?.()) {
        unread.push(event)
        if (unread.length >= LEFT_MOST_EVENTS) return unread
      }
      empty = unread.length > seen ? 0 : empty + 1
      seen = unread.length
      await polls.wait(clock)
    }
    return unread
  }

  /** Ends the attempt with a failure and returns it; whoever waits is rejected with it. */
  private fail(failure: ProviderFailure, outcome: AttemptOutcome = failure.kind): ProviderFailure {
    if (!this.over(outcome, failure)) return failure
    this.ending.abort(failure)
    this.tell(failure)
    return failure
  }

  /** Tells whoever waits, or asks next. */
  private tell(reason: unknown): void {
    this.thrown = { reason }
    this.pending?.reject(reason)
    this.wake()
  }

  /** Marks the end, once; false when it was over before. */
  private over(outcome: AttemptOutcome, failure: ProviderFailure | null): boolean {
    if (this.phase === 'over') return false
    this.phase = 'over'
    this.watchdog.stop()
    this.options.signal.removeEventListener('abort', this.onAbort)
    this.options.onOver(outcome, failure, this.options.clock.monotonicMs() - this.startedMs)
    return true
  }
}
