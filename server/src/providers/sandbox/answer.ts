import type { CallSignal } from '../../lib/callSignal.ts'
import type { Clock } from '../../lib/time.ts'
import { type ChatEvent, ProviderFailure } from '../dialect/spec.ts'
import type { SandboxPlan } from './plan.ts'
import type { SandboxFailure } from './settings.ts'

type Next = IteratorResult<ChatEvent, undefined>
const END: Next = { done: true, value: undefined }

/** Plays a plan at its pace. One `next()` at a time. An abort is heeded at once, also before the first token. */
export class SandboxAnswer implements AsyncIterableIterator<ChatEvent, undefined> {
  private readonly plan: SandboxPlan
  private readonly clock: Clock
  private readonly signal: CallSignal
  private readonly startedMs: number
  /** The end of the answer, after its tokens. */
  private readonly closing: ChatEvent[]
  private tokenIndex = 0
  private over = false

  constructor(plan: SandboxPlan, clock: Clock, signal: CallSignal) {
    this.plan = plan
    this.clock = clock
    this.signal = signal
    this.startedMs = clock.monotonicMs()
    this.closing = [{ kind: 'finish', reason: plan.finish }]
    if (plan.usage !== null) this.closing.push({ kind: 'usage', usage: plan.usage })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Next> {
    if (this.over) return Promise.resolve(END)
    if (this.signal.aborted) return Promise.reject(this.signal.reason)
    if (this.plan.silentAfter !== null && this.tokenIndex >= this.plan.silentAfter) return this.wait(null)
    const waitMs = this.dueMs() - this.clock.monotonicMs()
    return waitMs > 0 ? this.wait(waitMs) : this.give()
  }

  return(): Promise<Next> {
    this.over = true
    return Promise.resolve(END)
  }

  /** Returns when the next token is due. The closing events come together with the last token. */
  private dueMs(): number {
    const { firstTokenMs, tokensPerSecond, tokens } = this.plan
    const index = Math.max(Math.min(this.tokenIndex, tokens.length - 1), 0)
    return this.startedMs + firstTokenMs + (tokensPerSecond === null ? 0 : (index * 1_000) / tokensPerSecond)
  }

  private give(): Promise<Next> {
    const { failure, tokens } = this.plan
    if (failure !== null && this.tokenIndex >= Math.min(failure.afterTokens, tokens.length)) {
      this.over = true
      return Promise.reject(simulated(failure, this.tokenIndex))
    }
    const token = tokens[this.tokenIndex]
    if (token !== undefined) {
      this.tokenIndex += 1
      return Promise.resolve({ done: false, value: token })
    }
    const value = this.closing.shift()
    if (value !== undefined) return Promise.resolve({ done: false, value })
    this.over = true
    return Promise.resolve(END)
  }

  /** Waits until a token is due, or for nothing but the abort where `delayMs` is null. */
  private wait(delayMs: number | null): Promise<Next> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        cancelTimer()
        this.over = true
        reject(this.signal.reason)
      }
      this.signal.addEventListener('abort', onAbort)
      const cancelTimer =
        delayMs === null
          ? () => {}
          : this.clock.after(delayMs, () => {
              this.signal.removeEventListener('abort', onAbort)
              resolve(this.next())
            })
    })
  }
}

function simulated(failure: SandboxFailure, tokenIndex: number): ProviderFailure {
  // By the rule for real providers: another target may be asked for what is unavailable or late, before the first token.
  const mayFailOver = tokenIndex === 0 && (failure.kind === 'unavailable' || failure.kind === 'timeout')
  return new ProviderFailure(failure.kind, `simulated, after ${tokenIndex} tokens`, { mayFailOver })
}
