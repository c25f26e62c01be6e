import type { PriceTable } from '../catalog/price.ts'
import { extendHold, type Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import type { Hold, Wallet } from '../money/wallet.ts'
import { type ChatEvent, type FinishReason, type TokenUsage, UpstreamFailure } from '../upstream/spec.ts'
import { costAtMost, STEP_TOKENS } from './request.ts'

/** Tokenizers make at least about one token of this many characters of prose; used to watch a hold, never to charge. */
const CHARACTERS_PER_TOKEN = 4

/** What an answer may come to, and the money set aside for it. */
export interface Budget {
  readonly money: Money
  readonly wallet: Wallet
  readonly hold: Hold
  readonly price: PriceTable
  readonly promptTokens: number
  readonly outputTokens: number
  /** True when the upstream was told `outputTokens`, so that a hold of the whole worst case needs no watching. */
  readonly outputIsLimited: boolean
  /** For judging what an upstream claims. */
  readonly contextTokens: number
}

/**
 * An answer as it is generated: takes the upstream's events, keeps the hold ahead of the tokens, and remembers what there
 * is to charge for. One reader; ended by the upstream, by the money, or by {@link stop}.
 */
export class Generation {
  private readonly events: AsyncIterator<ChatEvent>
  private readonly budget: Budget
  private readonly signal: AbortSignal
  private textPieces: string[] = []
  private reasoningPieces: string[] = []
  private tokensSoFar = 0
  private tokensCovered: number
  private finish: FinishReason | null = null
  private reported: TokenUsage | null = null
  private ending: Outcome | null = null
  private broken: UpstreamFailure | null = null

  constructor(events: AsyncIterable<ChatEvent>, budget: Budget, signal: AbortSignal) {
    this.events = events[Symbol.asyncIterator]()
    this.budget = budget
    this.signal = signal
    this.tokensCovered = this.coveredBy(budget.hold.microcents)
  }

  /** How it ended; null while it goes on. */
  get outcome(): Outcome | null {
    return this.ending
  }

  /** Why the upstream broke off, when the outcome is `interrupted`. */
  get failure(): UpstreamFailure | null {
    return this.broken
  }

  get finishReason(): FinishReason {
    return this.ending === 'cut' ? 'length' : (this.finish ?? 'stop')
  }

  get text(): string {
    return this.textPieces.join('')
  }

  get reasoning(): string {
    return this.reasoningPieces.join('')
  }

  /** Whether the model has produced anything, shown or not. */
  get hasTokens(): boolean {
    return this.textPieces.length > 0 || this.reasoningPieces.length > 0
  }

  /** What the upstream reported, where that is possible for this model; null otherwise. */
  get usage(): TokenUsage | null {
    const { reported } = this
    if (reported === null) return null
    const { contextTokens } = this.budget
    const possible = reported.promptTokens <= contextTokens && reported.completionTokens <= contextTokens
    return possible ? reported : null
  }

  /** The next piece of text to forward, paid for; null when the answer has ended, for whatever reason. */
  async next(): Promise<string | null> {
    while (this.ending === null) {
      let event: ChatEvent | undefined
      try {
        const step = await this.events.next()
        event = step.done ? undefined : step.value
      } catch (error) {
        this.breakOff(error)
        return null
      }
      if (event === undefined) {
        this.ending = this.signal.aborted ? 'cancelled' : 'completed'
      } else if (event.kind === 'finish') {
        this.finish = event.reason
      } else if (event.kind === 'usage') {
        this.reported = event.usage
      } else {
        const covered = this.cover(event.text)
        if (covered === false || (covered !== true && !(await covered))) {
          await this.end('cut')
          return null
        }
        if (event.kind === 'text') {
          this.textPieces.push(event.text)
          return event.text
        }
        this.reasoningPieces.push(event.text)
      }
    }
    return null
  }

  /** Ends it because the client is gone. */
  async stop(): Promise<void> {
    if (this.ending === null) await this.end('cancelled')
  }

  private async end(outcome: Outcome): Promise<void> {
    this.ending = outcome
    // Cancels the upstream's work; how that goes no longer matters to anyone.
    await this.events.return?.().catch(() => {})
  }

  private breakOff(error: unknown): void {
    this.ending = this.signal.aborted ? 'cancelled' : 'interrupted'
    this.broken = error instanceof UpstreamFailure ? error : new UpstreamFailure('faulty', String(error), false)
  }

  /** Makes sure that the hold covers one more piece before it is forwarded. */
  private cover(text: string): boolean | Promise<boolean> {
    this.tokensSoFar += Math.ceil(text.length / CHARACTERS_PER_TOKEN)
    if (this.tokensSoFar <= this.tokensCovered) return true
    const { money, hold, wallet, price, promptTokens } = this.budget
    const upTo = this.tokensSoFar + STEP_TOKENS
    const extended = extendHold(money, hold, wallet, costAtMost(price, promptTokens, upTo))
    if (extended === false) return false
    if (extended === true) {
      this.tokensCovered = upTo
      return true
    }
    return extended.then((done) => {
      if (done) this.tokensCovered = upTo
      return done
    })
  }

  private coveredBy(microcents: bigint): number {
    const { price, promptTokens, outputTokens, outputIsLimited } = this.budget
    const whole = costAtMost(price, promptTokens, outputTokens)
    if (microcents >= whole && outputIsLimited) return Number.POSITIVE_INFINITY
    if (price.outputMicrocents === 0n) return Number.POSITIVE_INFINITY
    const forOutput = microcents - costAtMost(price, promptTokens, 0)
    return forOutput <= 0n ? 0 : Number((forOutput * 1_000_000n) / price.outputMicrocents)
  }
}
